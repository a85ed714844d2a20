// Views of larger buffers and of other strides: equal to a contiguous copy, and nothing outside the
// view is written (or, with poison around it, read).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

using Shape = std::vector<int64_t>;

TensorView strided(const void* data, DType dtype, const Shape& shape, const Shape& strides) {
  TensorView view = view_of(data, dtype, shape);
  std::copy(strides.begin(), strides.end(), view.strides);
  return view;
}

// The elements of a view in the order of its rows and columns, by the definition of a stride.
std::vector<std::byte> gather(const TensorView& view) {
  int64_t count = 1;
  for (int i = 0; i < view.rank; ++i) count *= view.shape[i];
  const int64_t size = element_size(view.dtype);
  std::vector<std::byte> out(static_cast<size_t>(count * size));
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n;
    int64_t offset = 0;
    for (int i = view.rank - 1; i >= 0; --i) {
      offset += rest % view.shape[i] * view.strides[i];
      rest /= view.shape[i];
    }
    std::memcpy(out.data() + n * size, static_cast<const std::byte*>(view.data) + offset * size,
                static_cast<size_t>(size));
  }
  return out;
}

std::vector<Recipe> recipes() {
  std::vector<Recipe> list = all_recipes(48, 2, 50);
  list.push_back(with(per_group(1), ScaleEncoding::ue8m0_packed));
  list.push_back(per_group(7));
  list.push_back(with(per_token(), ScaleSource::given));
  list.push_back(with(per_group(20), ScaleSource::given));
  return list;
}

CallOptions options_for(const TensorView& x, const Recipe& recipe) {
  CallOptions options;
  if (recipe.scale_source == ScaleSource::given) {
    const TensorView codes = view_of(nullptr, code_dtype(recipe), row_shape(x, x.columns()));
    options.given = make_scales(spec_of(codes, recipe), recipe.encoding, 5);
  }
  return options;
}

// Quantizes the view and its contiguous copy of [rows..., columns].
void expect_equals_copy(const TensorView& x) {
  const auto copy = gather(x);
  const TensorView contiguous = view_of(copy.data(), x.dtype, row_shape(x, x.columns()));
  for (const Recipe& recipe : recipes()) {
    const CallOptions options = options_for(x, recipe);
    EXPECT_TRUE(
        same_outputs(run_quantize(x, recipe, options), run_quantize(contiguous, recipe, options)))
        << to_string(x) << ": " << to_string(recipe);
  }
}

class Views : public testing::TestWithParam<DType> {
 protected:
  // NaN and infinities in turn, as the neighbourhood of a view.
  std::vector<std::byte> poisoned(int64_t count) const {
    std::vector<float> values(static_cast<size_t>(count), NAN);
    for (size_t i = 0; i < values.size(); i += 2) values[i] = INFINITY;
    return data_of(GetParam(), values);
  }
  int64_t size() const { return element_size(GetParam()); }
  // Fills the elements of `view`, whose data are inside `buffer`.
  void fill(const TensorView& view, Data data, uint64_t seed) const {
    int64_t count = 1;
    for (int i = 0; i < view.rank; ++i) count *= view.shape[i];
    const auto values = make_data(data, GetParam(), count, seed);
    for (int64_t n = 0; n < count; ++n) {
      int64_t rest = n;
      int64_t offset = 0;
      for (int i = view.rank - 1; i >= 0; --i) {
        offset += rest % view.shape[i] * view.strides[i];
        rest /= view.shape[i];
      }
      std::memcpy(static_cast<std::byte*>(view.data) + offset * size(), values.data() + n * size(),
                  static_cast<size_t>(size()));
    }
  }
};

TEST_P(Views, RowsAndColumnsOfALargerBuffer) {
  auto buffer = poisoned(12 * 200);
  const TensorView x =
      strided(buffer.data() + (2 * 200 + 13) * size(), GetParam(), {4, 130}, {2 * 200, 1});
  fill(x, Data::wide, 1);
  expect_equals_copy(x);
}

TEST_P(Views, HeadsAndDims) {
  // Attention output [heads, tokens, dim]; a row is the dims of all heads. Groups of 48 and 20
  // cross from one head into the next, and so do strips.
  auto buffer = poisoned(3 * 7 * 40);
  const TensorView x = strided(buffer.data(), GetParam(), {3, 5, 35}, {7 * 40, 40, 1});
  fill(x, Data::normal, 2);
  expect_equals_copy(x.as_rows({1}, {0, 2}));
  expect_equals_copy(x.as_rows({}, {0, 1, 2}));
  expect_equals_copy(x.as_rows({0, 1}, {2}));
  expect_equals_copy(x.as_rows({1, 0}, {2}));
}

// Attention output in the orders that kernels leave it in, seen as [heads, tokens, dim]: head by
// head, token by token, and heads that are a part of more; then with a batch in front, where each
// batch has its scales. Every layout, a scale a token and a group.
TEST_P(Views, AttentionOutput) {
  std::vector<Recipe> some = group_recipes(128);
  some.push_back(per_token());
  some.push_back(per_group(96));
  const auto expect = [&](const TensorView& x) {
    const auto copy = gather(x);
    const TensorView contiguous = view_of(copy.data(), x.dtype, row_shape(x, x.columns()));
    for (const Recipe& recipe : some) {
      EXPECT_TRUE(same_outputs(run_quantize(x, recipe), run_quantize(contiguous, recipe)))
          << to_string(x) << ": " << to_string(recipe);
    }
  };
  constexpr int64_t kHeads = 5;
  constexpr int64_t kTokens = 7;
  for (int64_t dim : {64, 96, 128}) {
    auto buffer = poisoned(2 * (kHeads + 2) * (kTokens + 1) * dim);
    for (const Shape& strides : {Shape{kTokens * dim, dim, 1}, Shape{dim, kHeads * dim, 1},
                                 Shape{dim, (kHeads + 2) * dim, 1}}) {
      const TensorView x = strided(buffer.data(), GetParam(), {kHeads, kTokens, dim}, strides);
      fill(x, Data::normal, 20);
      expect(x.as_rows({1}, {0, 2}));
      const int64_t whole = (kHeads + 2) * (kTokens + 1) * dim;
      const TensorView batched = strided(buffer.data(), GetParam(), {2, kHeads, kTokens, dim},
                                         {whole, strides[0], strides[1], 1});
      fill(batched, Data::wide, 21);
      expect(batched.as_rows({0, 2}, {1, 3}));
    }
  }
}

TEST_P(Views, HeadsOfManyColumns) {
  auto buffer = poisoned(5 * 3 * 2500);
  const TensorView x = strided(buffer.data(), GetParam(), {5, 2, 2500}, {3 * 2500, 2500, 1});
  fill(x, Data::wide, 3);
  expect_equals_copy(x.as_rows({1}, {0, 2}));
}

TEST_P(Views, BatchSlice) {
  auto buffer = poisoned(2 * 8 * 256);
  const TensorView x =
      strided(buffer.data() + 3 * 256 * size(), GetParam(), {2, 5, 256}, {8 * 256, 256, 1});
  fill(x, Data::normal, 4);
  expect_equals_copy(x);
}

TEST_P(Views, ExpandedRows) {
  auto row = make_data(Data::wide, GetParam(), 100, 5);
  expect_equals_copy(strided(row.data(), GetParam(), {5, 100}, {0, 1}));
  expect_equals_copy(strided(row.data(), GetParam(), {2, 3, 50}, {50, 0, 1}));
}

TEST_P(Views, RowsInReverse) {
  auto data = make_data(Data::wide, GetParam(), 6 * 70, 6);
  expect_equals_copy(strided(data.data() + 5 * 70 * size(), GetParam(), {6, 70}, {-70, 1}));
  expect_equals_copy(strided(data.data() + 3 * 70 * size(), GetParam(), {2, 3, 70}, {70, -70, 1}));
}

TEST_P(Views, OverlappingRows) {
  // A sliding window: an input may overlap itself.
  auto data = make_data(Data::normal, GetParam(), 60 + 9 * 3, 7);
  expect_equals_copy(strided(data.data(), GetParam(), {10, 60}, {3, 1}));
}

TEST_P(Views, OneColumnOfAnyStride) {
  auto data = make_data(Data::normal, GetParam(), 9 * 5, 8);
  expect_equals_copy(strided(data.data(), GetParam(), {9, 1}, {5, 77}));
}

TEST_P(Views, MisalignedByOneElementAndByOneByte) {
  const auto data = make_data(Data::wide, GetParam(), 5 * 150, 9);
  for (int64_t shift : {int64_t{1}, size(), size() + 1, int64_t{7}}) {
    std::vector<std::byte> buffer(data.size() + static_cast<size_t>(shift));
    std::copy(data.begin(), data.end(), buffer.begin() + shift);
    const TensorView x = view_of(buffer.data() + shift, GetParam(), {5, 150});
    for (const Recipe& recipe : recipes()) {
      CallOptions options = options_for(x, recipe);
      const Outputs expected =
          run_quantize(view_of(data.data(), GetParam(), {5, 150}), recipe, options);
      options.shift = shift;
      EXPECT_TRUE(same_outputs(run_quantize(x, recipe, options), expected))
          << "shift " << shift << ": " << to_string(recipe);
    }
  }
}

// Codes go into views of any shape; between their rows and heads nothing changes.
TEST_P(Views, CodesIntoViews) {
  const auto data = make_data(Data::wide, GetParam(), 5 * 105, 10);
  const TensorView x = view_of(data.data(), GetParam(), {5, 105});
  struct Target {
    Shape shape, strides;
    bool heads;
  };
  for (const Target& to : {Target{{5, 105}, {140, 1}, false}, Target{{5, 105}, {-105, 1}, false},
                           Target{{3, 5, 35}, {200, 37, 1}, true}}) {
    for (const Recipe& recipe : recipes()) {
      const CallOptions options = options_for(x, recipe);
      const Outputs expected = run_quantize(x, recipe, options);
      GuardedBuffer buffer(700);
      TensorView codes = strided(buffer.data() + (to.strides[0] < 0 ? 4 * 105 : 0),
                                 code_dtype(recipe), to.shape, to.strides);
      if (to.heads) codes = codes.as_rows({1}, {0, 2});
      const ScaleSpec spec = spec_of(codes, recipe);
      GuardedBuffer scales(scale_bytes(spec));
      if (recipe.scale_source == ScaleSource::given) {
        std::copy(options.given.begin(), options.given.end(), scales.data());
      }
      ASSERT_TRUE(quantize(x, recipe, codes, spec.view(scales.data())).ok());
      EXPECT_TRUE(same_bytes(gather(codes), expected.codes))
          << to_string(codes) << ": " << to_string(recipe);
      EXPECT_TRUE(same_bytes(scales.content(), expected.scales)) << to_string(recipe);
      EXPECT_TRUE(buffer.guards_are_unchanged());
      // Written places hold the codes, all others the poison.
      std::vector<std::byte> rest = buffer.content();
      const auto base = static_cast<std::byte*>(codes.data) - buffer.data();
      for (int64_t r = 0; r < codes.rows(); ++r) {
        for (int64_t c = 0; c < codes.columns(); ++c) {
          const int64_t offset = to.heads ? c / 35 * to.strides[0] + r * to.strides[1] + c % 35
                                          : r * to.strides[0] + c;
          rest[static_cast<size_t>(base + offset)] = kPoison;
        }
      }
      EXPECT_EQ(std::count(rest.begin(), rest.end(), kPoison), 700) << to_string(codes);
    }
  }
}

TEST_P(Views, DequantizeIntoAndOutOfViews) {
  std::vector<uint8_t> codes(3 * 5 * 40);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 11);
  const TensorView heads =
      strided(codes.data(), DType::e4m3, {3, 5, 35}, {5 * 40, 40, 1}).as_rows({1}, {0, 2});
  const auto copy = gather(heads);
  const TensorView flat = view_of(copy.data(), DType::e4m3, {5, 105});
  for (const Recipe& recipe : recipes()) {
    const ScaleSpec spec = spec_of(heads, recipe);
    const auto scales = make_scales(spec, recipe.encoding, 12);
    const TensorView scale_view = spec.view(scales.data());
    const auto expected = run_dequantize(flat, scale_view, recipe, GetParam());
    EXPECT_TRUE(same_bytes(run_dequantize(heads, scale_view, recipe, GetParam()), expected))
        << to_string(recipe);
    GuardedBuffer y(3 * 6 * 40 * size(), 1);
    const TensorView out =
        strided(y.data(), GetParam(), {3, 5, 35}, {6 * 40, 40, 1}).as_rows({1}, {0, 2});
    ASSERT_TRUE(dequantize(flat, scale_view, recipe, out).ok());
    EXPECT_TRUE(same_bytes(gather(out), expected)) << to_string(recipe);
    EXPECT_TRUE(y.guards_are_unchanged());
    EXPECT_EQ(y.content()[static_cast<size_t>(36 * size())], kPoison);  // between two rows
  }
}

// Rows of more than one strip whose borders lie inside a run, written into runs of 2500 elements.
TEST_P(Views, ManyColumnsIntoHeads) {
  constexpr int64_t kRun = 2500;
  const Shape shape = {5, 2, kRun};
  const Shape strides = {3 * kRun, kRun + 3, 1};
  const auto data = make_data(Data::normal, GetParam(), 2 * 5 * kRun, 14);
  const TensorView x = view_of(data.data(), GetParam(), {2, 5 * kRun});
  for (const Recipe& recipe : {per_token(), per_group(128), per_tensor(), per_block(2, 100),
                               with(per_column(), ScaleSource::given)}) {
    const CallOptions options = options_for(x, recipe);
    const Outputs expected = run_quantize(x, recipe, options);
    GuardedBuffer buffer(5 * 3 * kRun);
    const TensorView codes =
        strided(buffer.data(), code_dtype(recipe), shape, strides).as_rows({1}, {0, 2});
    std::vector<std::byte> scales = expected.scales;
    const TensorView scale_view = spec_of(codes, recipe).view(scales.data());
    ASSERT_TRUE(quantize(x, recipe, codes, scale_view).ok());
    EXPECT_TRUE(same_bytes(gather(codes), expected.codes)) << to_string(recipe);
    EXPECT_TRUE(buffer.guards_are_unchanged());
    EXPECT_EQ(buffer.content()[kRun], kPoison);  // between two rows

    const auto y = run_dequantize(codes, scale_view, recipe, GetParam());
    GuardedBuffer out(5 * 3 * kRun * size(), 1);
    const TensorView y_heads = strided(out.data(), GetParam(), shape, strides).as_rows({1}, {0, 2});
    ASSERT_TRUE(dequantize(view_of(expected.codes.data(), codes.dtype, {2, 5 * kRun}), scale_view,
                           recipe, y_heads)
                    .ok());
    EXPECT_TRUE(same_bytes(gather(y_heads), y)) << to_string(recipe);
    EXPECT_TRUE(out.guards_are_unchanged());
  }
  // A producer's row and its residual, too.
  GuardedBuffer out(5 * 3 * kRun * size(), 1);
  const TensorView y_heads = strided(out.data(), GetParam(), shape, strides).as_rows({1}, {0, 2});
  const auto row =
      call_into_rows(x, 5 * kRun, GetParam(), [&](const TensorView& y) { return relu2(x, y); });
  ASSERT_TRUE(relu2(x, y_heads).ok());
  EXPECT_TRUE(same_bytes(gather(y_heads), row));
  const std::vector<float> weight(5 * kRun, 1.5F);
  RmsNorm norm;
  norm.weight = view_of(weight.data(), DType::f32, {5 * kRun});
  auto residual = make_data(Data::normal, GetParam(), 2 * 5 * kRun, 15);
  fill(y_heads, Data::normal, 15);  // the same residual in heads
  norm.residual = view_of(residual.data(), GetParam(), {2, 5 * kRun});
  ASSERT_TRUE(same_bytes(gather(y_heads), residual));
  const auto normed = call_into_rows(x, 5 * kRun, GetParam(),
                                     [&](const TensorView& y) { return rms_norm(x, norm, y); });
  norm.residual = y_heads;
  EXPECT_TRUE(same_bytes(call_into_rows(x, 5 * kRun, GetParam(),
                                        [&](const TensorView& y) { return rms_norm(x, norm, y); }),
                         normed));
  EXPECT_TRUE(same_bytes(gather(y_heads), residual));
  EXPECT_TRUE(out.guards_are_unchanged());
}

TEST_P(Views, Producers) {
  auto buffer = poisoned(4 * 6 * 60);
  const TensorView x = strided(buffer.data(), GetParam(), {4, 5, 50}, {6 * 60, 60, 1});
  fill(x, Data::normal, 13);
  const TensorView heads = x.as_rows({1}, {0, 2});  // [5, 200]: the up half begins with head 2
  const auto copy = gather(heads);
  const TensorView flat = view_of(copy.data(), GetParam(), {5, 200});
  std::vector<float> weight(200, 1.5F);
  RmsNorm norm;
  norm.weight = view_of(weight.data(), DType::f32, {200});
  using Run = std::function<Status(const TensorView&, const TensorView&)>;
  const std::vector<std::pair<int64_t, Run>> all = {
      {100, [](const TensorView& in, const TensorView& y) { return silu_mul(in, y); }},
      {100, [](const TensorView& in, const TensorView& y) { return gelu_tanh_mul(in, y); }},
      {100, [](const TensorView& in, const TensorView& y) { return swiglu_clamped(in, {}, y); }},
      {200, [](const TensorView& in, const TensorView& y) { return relu2(in, y); }},
      {200, [&](const TensorView& in, const TensorView& y) { return rms_norm(in, norm, y); }},
  };
  for (const auto& [columns, run] : all) {
    const auto expected = call_into_rows(flat, columns, GetParam(),
                                         [&, &r = run](const TensorView& y) { return r(flat, y); });
    EXPECT_TRUE(
        same_bytes(call_into_rows(heads, columns, GetParam(),
                                  [&, &r = run](const TensorView& y) { return r(heads, y); }),
                   expected));
    // Into heads, too.
    GuardedBuffer y(4 * 6 * 60 * size(), 1);
    const TensorView out =
        strided(y.data(), GetParam(), {4, 5, columns / 4}, {6 * 60, 60, 1}).as_rows({1}, {0, 2});
    ASSERT_TRUE(run(flat, out).ok());
    EXPECT_TRUE(same_bytes(gather(out), expected));
    EXPECT_TRUE(y.guards_are_unchanged());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Views, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace rowscale::test
