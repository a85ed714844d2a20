// Tensors in one buffer: what is accepted shares no byte, counted byte by byte, and the result is
// what it would be in memory of its own; what is refused shares some, where the header says that
// the decision is exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"

namespace rowscale::test {
namespace {

// A tensor of f32 in a buffer: `at` bytes from its begin, strides in elements.
struct Placed {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int64_t at = 0;

  // Where each element begins, in the order of rows and columns.
  [[nodiscard]] std::vector<int64_t> offsets() const {
    std::vector<int64_t> out = {at};
    for (size_t d = 0; d < shape.size(); ++d) {
      std::vector<int64_t> next;
      next.reserve(out.size() * static_cast<size_t>(shape[d]));
      for (int64_t offset : out) {
        for (int64_t i = 0; i < shape[d]; ++i) next.push_back(offset + i * strides[d] * 4);
      }
      out = next;
    }
    return out;
  }
  [[nodiscard]] std::set<int64_t> bytes() const {
    std::set<int64_t> out;
    for (int64_t offset : offsets()) {
      for (int64_t b = 0; b < 4; ++b) out.insert(offset + b);
    }
    return out;
  }
  [[nodiscard]] bool repeats_bytes() const { return bytes().size() < 4 * offsets().size(); }
  [[nodiscard]] TensorView view(std::byte* buffer) const {
    TensorView view = view_of(buffer + at, DType::f32, shape);
    std::copy(strides.begin(), strides.end(), view.strides);
    return view;
  }
};

std::string text_of(const Placed& p) {
  return to_string(p.view(nullptr)) + " at " + std::to_string(p.at);
}

bool share_bytes(const Placed& a, const Placed& b) {
  const std::set<int64_t> of_a = a.bytes();
  const std::set<int64_t> of_b = b.bytes();
  return std::any_of(of_a.begin(), of_a.end(), [&](int64_t at) { return of_b.count(at) != 0; });
}

constexpr int64_t kBuffer = 4096;

// relu2 from x to y, both somewhere in the buffer, against a loop over the elements.
void expect_right(const Placed& x, const Placed& y, std::mt19937* random) {
  std::vector<std::byte> buffer(kBuffer);
  for (std::byte& byte : buffer) byte = static_cast<std::byte>((*random)() % 64 + 1);
  std::vector<std::byte> expected = buffer;
  const std::vector<int64_t> from = x.offsets();
  const std::vector<int64_t> to = y.offsets();
  for (size_t i = 0; i < from.size(); ++i) {
    float value;
    std::memcpy(&value, buffer.data() + from[i], 4);
    value = value * value;  // of positive numbers
    std::memcpy(expected.data() + to[i], &value, 4);
  }
  ASSERT_TRUE(relu2(x.view(buffer.data()), y.view(buffer.data())).ok());
  EXPECT_TRUE(same_bytes(buffer, expected)) << text_of(x) << ", " << text_of(y);
}

struct Counts {
  int accepted = 0;
  int refused = 0;
  int refused_though_apart = 0;
};

void compare(const Placed& x, const Placed& y, std::mt19937* random, Counts* counts) {
  std::vector<std::byte> buffer(kBuffer);
  const Status status = relu2(x.view(buffer.data()), y.view(buffer.data()));
  if (status.message().find("share no memory") != std::string::npos) return;  // y with itself
  ASSERT_FALSE(y.repeats_bytes()) << text_of(y);
  const bool shared = share_bytes(x, y);
  if (status.ok()) {
    ++counts->accepted;
    ASSERT_FALSE(shared) << text_of(x) << ", " << text_of(y);
    expect_right(x, y, random);
    return;
  }
  ASSERT_NE(status.message().find("y: expected memory of its own"), std::string::npos)
      << status.message();
  ++(shared ? counts->refused : counts->refused_though_apart);
}

// Rows in blocks in larger blocks, each with a pad behind it, which may hold the other tensor; some
// run backwards.
TEST(Interleaving, EqualStridesAreDecidedExactly) {
  std::mt19937 random(5);
  const auto up_to = [&](int64_t most) { return static_cast<int64_t>(random() % (most + 1)); };
  Counts counts;
  for (int round = 0; round < 8000; ++round) {
    const size_t row_rank = 1 + random() % 3;
    Placed x, y;
    const int64_t width = 1 + up_to(2);
    x.shape.assign(row_rank + 1, width);
    x.strides.assign(row_rank + 1, 1);
    int64_t below = width;
    for (size_t d = row_rank; d-- > 0;) {
      x.shape[d] = 1 + up_to(2);
      const int64_t pitch = below + up_to(below + 2);
      x.strides[d] = pitch;
      below = (x.shape[d] - 1) * pitch + below;
    }
    y = x;
    x.at = 1024;
    y.at = 1024 + 4 * (up_to(2 * below) - below) + (round % 4 == 0 ? up_to(3) : 0);
    for (size_t d = 0; d < row_rank; ++d) {
      if (random() % 4 != 0) continue;
      Placed& one = random() % 2 == 0 ? x : y;  // the same bytes from the other end
      one.at += (one.shape[d] - 1) * one.strides[d] * 4;
      one.strides[d] = -one.strides[d];
    }
    compare(x, y, &random, &counts);
    ASSERT_EQ(counts.refused_though_apart, 0) << text_of(x) << ", " << text_of(y);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.accepted, 1000);
  EXPECT_GT(counts.refused, 1000);
}

// Whatever the strides: an accepted call is right. x may repeat itself.
TEST(Interleaving, NothingThatSharesBytesIsAccepted) {
  std::mt19937 random(6);
  const auto any = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % (to - from + 1));
  };
  Counts counts;
  for (int round = 0; round < 8000; ++round) {
    const size_t row_rank = 1 + random() % 2;
    Placed x, y;
    x.shape.assign(row_rank + 1, 1);
    for (int64_t& size : x.shape) size = any(1, 3);
    x.strides.assign(row_rank + 1, 1);
    y = x;
    for (size_t d = 0; d < row_rank; ++d) {
      x.strides[d] = any(-6, 12);
      y.strides[d] = random() % 2 == 0 ? any(-24, 24) : 2 * x.strides[d];
    }
    x.at = 1024;
    y.at = 1024 + any(-80, 80);
    compare(x, y, &random, &counts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(counts.accepted, 500);
  EXPECT_GT(counts.refused, 500);
}

// A cache in blocks of three rows, latent | rope, with a pad behind each block that is no multiple
// of a row; the scales of the codes lie in the first of these pads.
TEST(Interleaving, PaddedBlocksOfACache) {
  constexpr int64_t kRow = 12;
  constexpr int64_t kBlock = 3 * kRow + 13;  // floats
  const int64_t q = 16, kv = 8, rope = 4;
  std::vector<float> x(2 * 3 * static_cast<size_t>(q + kv + rope));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) - 6.0F;
  const std::vector<float> weight(16, 1.0F);
  MlaNorm norm;
  norm.q_weight = view_of(weight.data(), DType::f32, {q});
  norm.kv_weight = view_of(weight.data(), DType::f32, {kv});
  const TensorView x_view = view_of(x.data(), DType::f32, {2, 3, q + kv + rope});
  std::vector<uint8_t> codes(2 * 3 * 16), codes_alone(codes.size());
  std::vector<float> cache(2 * kBlock, -7.0F), kv_alone(2 * 3 * 8), rope_alone(2 * 3 * 4);
  std::vector<float> scales_alone(6);

  const auto call = [&](uint8_t* q_codes, float* q_scales, const TensorView& kv_view,
                        const TensorView& rope_view) {
    MlaOutputs out;
    out.q_codes = view_of(q_codes, DType::e4m3, {2, 3, q});
    out.q_scales = view_of(q_scales, DType::f32, {2, 3, 1});
    out.kv = kv_view;
    out.rope = rope_view;
    return mla_norm_quantize(x_view, norm, per_token(), {}, out);
  };
  const auto in_cache = [&](int64_t column, int64_t width) {
    return TensorView::strided(cache.data() + column, DType::f32, {2, 3, width}, {kBlock, kRow, 1});
  };
  ASSERT_TRUE(call(codes_alone.data(), scales_alone.data(),
                   view_of(kv_alone.data(), DType::f32, {2, 3, kv}),
                   view_of(rope_alone.data(), DType::f32, {2, 3, rope}))
                  .ok());
  const Status status =
      call(codes.data(), cache.data() + 3 * kRow, in_cache(0, kv), in_cache(kv, rope));
  ASSERT_TRUE(status.ok()) << status.message();

  EXPECT_EQ(codes, codes_alone);
  std::vector<float> expected(cache.size(), -7.0F);
  for (size_t row = 0; row < 6; ++row) {
    float* at = expected.data() + row / 3 * kBlock + row % 3 * kRow;
    std::copy_n(kv_alone.begin() + static_cast<int64_t>(row) * kv, kv, at);
    std::copy_n(rope_alone.begin() + static_cast<int64_t>(row) * rope, rope, at + kv);
    expected[3 * kRow + row] = scales_alone[row];
  }
  EXPECT_EQ(cache, expected);
  // One element further, and the last row's scale would lie in the second block.
  const Status over =
      call(codes.data(), cache.data() + kBlock - 5, in_cache(0, kv), in_cache(kv, rope));
  EXPECT_EQ(over.code(), StatusCode::invalid_argument);
  EXPECT_NE(over.message().find("outputs.q_scales"), std::string::npos) << over.message();
  EXPECT_NE(over.message().find("overlaps outputs.kv"), std::string::npos) << over.message();
}

TEST(Interleaving, WhatIsNotLookedIntoIsRefusedAndSaysSo) {
  std::vector<float> buffer(64);
  // Rows at 0, 10, 20 and at 5, 17, 29: apart, as a list of rows shows.
  const Status status = relu2(TensorView::strided(buffer.data(), DType::f32, {3, 2}, {10, 1}),
                              TensorView::strided(buffer.data() + 5, DType::f32, {3, 2}, {12, 1}));
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(),
            "y: expected memory of its own, got memory that overlaps x or interleaves with it at "
            "other strides");
}

}  // namespace
}  // namespace rowscale::test
