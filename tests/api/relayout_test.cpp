// relayout_scales: between all layouts and encodings, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/api/exponent_data.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

std::vector<uint8_t> bytes_of(const std::vector<std::byte>& bytes) {
  std::vector<uint8_t> out(bytes.size());
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<uint32_t> words_of(const std::vector<std::byte>& bytes) {
  std::vector<uint32_t> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<std::byte> relayout(const TensorView& codes, const std::vector<std::byte>& scales,
                                const Recipe& in, const Recipe& out) {
  const ScaleSpec out_spec = spec_of(codes, out);
  GuardedBuffer buffer(scale_bytes(out_spec));
  const Status status = relayout_scales(codes, spec_of(codes, in).view(scales.data()), in,
                                        out_spec.view(buffer.data()), out);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(buffer.guards_are_unchanged()) << to_string(out);
  return buffer.content();
}

// Between any two layouts and encodings the result is what quantize writes in the second at once.
TEST(Relayout, AllPairs) {
  for (int64_t rows : {1, 3, 17}) {
    for (int64_t groups : {1, 5, 9}) {
      const auto x = data_with_exponents(rows, groups, 4, [](int64_t t, int64_t g) {
        return static_cast<int>((t * 13 + g * 5) % 79) - 32;
      });
      const TensorView view = view_of(x.data(), DType::f32, {rows, groups * 4});
      for (const Recipe& in : group_recipes(4)) {
        for (const Recipe& out : group_recipes(4)) {
          if (in.encoding == ScaleEncoding::f32 && out.encoding != ScaleEncoding::f32) continue;
          EXPECT_TRUE(same_bytes(relayout(view, run_quantize(view, in).scales, in, out),
                                 run_quantize(view, out).scales))
              << to_string(in) << "\nto " << to_string(out);
        }
      }
    }
  }
}

TEST(Relayout, BlocksAndWholeTensors) {
  const auto x = data_with_exponents(
      10, 5, 4, [](int64_t t, int64_t g) { return static_cast<int>(t / 3 * 7 + g); });
  const TensorView view = view_of(x.data(), DType::f32, {2, 5, 20});
  for (const auto& family :
       {block_recipes(3, 4),
        std::vector<Recipe>{per_token(), with(per_token(), ScaleEncoding::ue8m0),
                            with(per_token(), ScaleEncoding::ue8m0_f32)}}) {
    for (const Recipe& in : family) {
      for (const Recipe& out : family) {
        if (in.encoding == ScaleEncoding::f32 && out.encoding != ScaleEncoding::f32) continue;
        EXPECT_TRUE(same_bytes(relayout(view, run_quantize(view, in).scales, in, out),
                               run_quantize(view, out).scales))
            << to_string(in) << "\nto " << to_string(out);
      }
    }
  }
}

// Any f32 value, whatever it is, survives a change of layout.
TEST(Relayout, KeepsEveryFloat) {
  const Recipe in = per_group(1);
  const Recipe out = with(per_group(1), ScaleEncoding::f32, ScaleLayout::column_major_tma);
  const TensorView codes = view_of(nullptr, DType::e4m3, {9, 50});
  const auto scales = make_data(Data::raw, DType::f32, 450, 3);
  const auto moved = relayout(codes, scales, in, out);
  EXPECT_TRUE(same_bytes(relayout(codes, moved, out, in), scales));
}

// Byte 255 is NaN as a float; NaN and infinity are byte 255. 2^-127 is a subnormal float.
TEST(Relayout, EndsOfUe8m0) {
  const Recipe bytes = with(per_group(1), ScaleEncoding::ue8m0);
  const Recipe as_floats = with(per_group(1), ScaleEncoding::ue8m0_f32);
  const TensorView codes = view_of(nullptr, DType::e4m3, {1, 4});
  const std::vector<std::byte> in = {std::byte{0}, std::byte{1}, std::byte{254}, std::byte{255}};
  const auto out = words_of(relayout(codes, in, bytes, as_floats));
  EXPECT_EQ(out, (std::vector<uint32_t>{0x00400000, 0x00800000, 0x7F000000, 0x7FFFFFFF}));
  const std::vector<float> back = {0x1p-127F, 0x1p127F, INFINITY,
                                   std::bit_cast<float>(0xFFC00001U)};
  EXPECT_EQ(bytes_of(relayout(codes, data_of(DType::f32, back), as_floats, bytes)),
            (std::vector<uint8_t>{0, 254, 255, 255}));
}

TEST(Relayout, RefusesWhatWouldChangeCodes) {
  const TensorView codes = view_of(nullptr, DType::e4m3, {1, 4});
  const Recipe f32 = per_group(1);
  float scales[4] = {1.0F, 1.5F, 1.0F, 1.0F};
  for (const Recipe& out : {with(f32, ScaleEncoding::ue8m0), with(f32, ScaleEncoding::ue8m0_packed),
                            with(f32, ScaleEncoding::ue8m0_f32)}) {
    const ScaleSpec spec = spec_of(codes, out);
    GuardedBuffer buffer(scale_bytes(spec));
    const Status status = relayout_scales(codes, spec_of(codes, f32).view(scales), f32,
                                          spec.view(buffer.data()), out);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(status.message().find("recipe_out.encoding"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("requantize"), std::string::npos) << status.message();
    EXPECT_EQ(std::count(buffer.data(), buffer.data() + buffer.size(), kPoison), buffer.size());
  }
}

// Floats that claim to be powers of two and are not, wherever they stand (B07).
TEST(Relayout, RefusesOtherThanPowersOfTwo) {
  const Recipe in = with(per_group(1), ScaleEncoding::ue8m0_f32);
  for (float bad : {1.5F, 0.0F, -1.0F, 0x1p-128F, 3.0F, -0.0F, 0x1.000002p0F}) {
    for (size_t at : {0, 3, 5}) {
      std::vector<float> scales(6, 1.0F);
      scales[at] = bad;
      const TensorView codes = view_of(nullptr, DType::e4m3, {2, 3});
      for (const Recipe& out : {with(per_group(1), ScaleEncoding::ue8m0),
                                with(per_group(1), ScaleEncoding::ue8m0_packed)}) {
        const ScaleSpec spec = spec_of(codes, out);
        GuardedBuffer buffer(scale_bytes(spec));
        const Status status = relayout_scales(codes, spec_of(codes, in).view(scales.data()), in,
                                              spec.view(buffer.data()), out);
        EXPECT_EQ(status.code(), StatusCode::invalid_argument) << bad;
        EXPECT_NE(status.message().find("scales_in: expected powers of two"), std::string::npos)
            << status.message();
        const std::string place =
            "[" + std::to_string(at / 3) + ", " + std::to_string(at % 3) + "]";
        EXPECT_NE(status.message().find(place), std::string::npos) << status.message();
        EXPECT_EQ(std::count(buffer.data(), buffer.data() + buffer.size(), kPoison), buffer.size());
      }
    }
  }
}

TEST(Relayout, RefusesAnotherGranularity) {
  const TensorView codes = view_of(nullptr, DType::e4m3, {4, 16});
  float a[64] = {};
  float b[64] = {};
  for (const Recipe& out : {per_group(8), per_token(), per_block(1, 4), per_tensor()}) {
    const Status status = relayout_scales(codes, spec_of(codes, per_group(4)).view(a), per_group(4),
                                          spec_of(codes, out).view(b), out);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << to_string(out);
    EXPECT_NE(status.message().find("recipe_out"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace rowscale::test
