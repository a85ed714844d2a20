// What tensors may share and how memory may lie, found by attack: each case here was once accepted
// and gave wrong values, or crashed.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "rowscale/rowscale.h"
#include "rowscale/rowscale.hpp"

namespace rowscale {
namespace {

void expect_refused(const Status& status, const std::string& word) {
  EXPECT_EQ(status.code(), StatusCode::invalid_argument) << status.message();
  EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
}

// Columns over {4, 1} with strides {7, 1}: a last dimension of size 1 hides that they do not lie
// side by side.
TEST(Memory, ColumnsBehindADimensionOfSizeOne) {
  float x[32];
  for (int i = 0; i < 32; ++i) x[i] = static_cast<float>(i);
  TensorView view = TensorView::strided(x, DType::f32, {1, 4, 1}, {64, 7, 1}).as_rows({0}, {1, 2});
  float y[4] = {};
  ASSERT_TRUE(relu2(view, TensorView::contiguous(y, DType::f32, {1, 4})).ok());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(y[i], static_cast<float>(49 * i * i)) << i;

  // The same as an output, backwards.
  float out[8];
  const auto backwards =
      TensorView::strided(out + 7, DType::f32, {8, 1}, {-1, 1}).as_rows({}, {0, 1});
  ASSERT_TRUE(relu2(TensorView::contiguous(x, DType::f32, {8}), backwards).ok());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out[7 - i], static_cast<float>(i * i)) << i;

  // One float, repeated by a stride of 0.
  x[0] = 3;
  const auto repeated = TensorView::strided(x, DType::f32, {4, 1}, {0, 1}).as_rows({}, {0, 1});
  ASSERT_TRUE(relu2(repeated, TensorView::contiguous(y, DType::f32, {4})).ok());
  for (float value : y) EXPECT_EQ(value, 9.0F);
}

// Scales of [2, 1, 4] with strides (16, 1, 4) leave gaps that look like rows; codes lie in them.
TEST(Memory, CodesBetweenScalesAreRefused) {
  alignas(4) std::byte memory[256] = {};
  const std::vector<float> x(64, 1.0F);
  Recipe recipe = per_group(8);
  recipe.layout = ScaleLayout::column_major_tma;
  const auto codes = TensorView::strided(memory + 16, DType::e4m3, {2, 1, 32}, {64, 64, 1});
  ScaleSpec spec;
  ASSERT_TRUE(scale_spec(codes, recipe, &spec).ok());
  expect_refused(quantize(TensorView::contiguous(x.data(), DType::f32, {2, 1, 32}), recipe, codes,
                          spec.view(memory)),
                 "overlaps scales");
}

// Pad columns are written.
TEST(Memory, CodesInPadColumnsAreRefused) {
  alignas(4) std::byte memory[128] = {};
  const std::vector<float> x(48, 1.0F);
  Recipe recipe = per_block(1, 16);
  recipe.layout = ScaleLayout::block_k4;
  const auto codes = TensorView::strided(memory + 4, DType::e4m3, {4, 12}, {16, 1});
  ScaleSpec spec;
  ASSERT_TRUE(scale_spec(codes, recipe, &spec).ok());
  expect_refused(quantize(TensorView::contiguous(x.data(), DType::f32, {4, 12}), recipe, codes,
                          spec.view(memory)),
                 "overlaps scales");
}

TEST(Memory, RowCountsInAnOutputAreRefused) {
  const std::vector<float> x(64, 1.0F);
  std::vector<uint8_t> codes(64);
  int32_t scales[8] = {2, 2, 2, 2, 2, 2, 2, 2};
  const auto masked =
      TensorView::contiguous(x.data(), DType::f32, {4, 2, 8}).with_row_counts(scales + 4);
  const auto code_view = TensorView::contiguous(codes.data(), DType::e4m3, {4, 2, 8});
  ScaleSpec spec;
  ASSERT_TRUE(scale_spec(code_view, per_token(), &spec).ok());
  expect_refused(quantize(masked, per_token(), code_view, spec.view(scales)), "row_counts");
}

// Absent is a default view; a shape without data is a mistake.
TEST(Memory, AShapeWithoutDataIsNotAbsent) {
  const std::vector<float> x(256, 1.0F);
  const std::vector<float> weight(128, 1.0F);
  std::vector<float> y(256);
  RmsNorm norm;
  norm.weight = TensorView::contiguous(weight.data(), DType::f32, {128});
  norm.residual = TensorView::contiguous(static_cast<void*>(nullptr), DType::f32, {2, 128});
  const auto x_view = TensorView::contiguous(x.data(), DType::f32, {2, 128});
  expect_refused(rms_norm(x_view, norm, TensorView::contiguous(y.data(), DType::f32, {2, 128})),
                 "norm.residual");
  std::vector<uint8_t> codes(256);
  std::vector<float> scales(2);
  expect_refused(
      relu2_quantize(x_view, per_token(),
                     TensorView::contiguous(codes.data(), DType::e4m3, {2, 128}),
                     TensorView::contiguous(scales.data(), DType::f32, {2, 1}),
                     TensorView::contiguous(static_cast<void*>(nullptr), DType::f32, {77})),
      "row_out");
}

// The counts would be read on the wrong device.
TEST(Memory, CountsOfAnotherDeviceAreRefused) {
  float scales[4] = {1, 1, 1, 1};
  float out[4];
  auto codes = TensorView::contiguous(static_cast<void*>(nullptr), DType::e4m3, {4, 8},
                                      {DeviceType::cuda, 0});
  codes = codes.with_row_counts(reinterpret_cast<const int32_t*>(uintptr_t{64}));
  const auto in = TensorView::contiguous(scales, DType::f32, {4, 1});
  expect_refused(relayout_scales(codes, in, per_token(),
                                 TensorView::contiguous(out, DType::f32, {4, 1}), per_token()),
                 "codes: expected the device of scales_in");
}

// Strides of dimensions of size 0 and 1 may be anything; those that reach too far are refused.
TEST(Memory, ExtremeStrides) {
  float x[2] = {1, 2};
  float y[2];
  const auto y_view = TensorView::contiguous(y, DType::f32, {1, 2});
  EXPECT_TRUE(relu2(TensorView::strided(x, DType::f32, {1, 2}, {INT64_MIN, 1}), y_view).ok());
  EXPECT_EQ(y[1], 4.0F);
  EXPECT_TRUE(relu2(TensorView::strided(x, DType::f32, {0, 2}, {INT64_MIN, 1}),
                    TensorView::contiguous(y, DType::f32, {0, 2}))
                  .ok());
  const auto two_rows = TensorView::contiguous(y, DType::f32, {2, 1});
  for (int64_t stride : {int64_t{1} << 60, -(int64_t{1} << 60), INT64_MIN, INT64_MAX}) {
    expect_refused(relu2(TensorView::strided(x, DType::f32, {2, 1}, {stride, 1}), two_rows),
                   "2^56");
  }
}

TEST(Memory, AStructThatWasNotSetUp) {
  rs_tensor garbage;
  std::memset(&garbage, 0xCC, sizeof garbage);
  EXPECT_EQ(rs_relu2(&garbage, &garbage, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_NE(std::string(rs_last_error()).find("_INIT macro"), std::string::npos);
}

TEST(Memory, RecipeTextIsReadOnce) {
  Recipe recipe;
  expect_refused(parse_recipe("granularity=per_column source=dynamic", &recipe), "given");
  expect_refused(parse_recipe("source=dynamic granularity=per_column", &recipe), "given");
  expect_refused(parse_recipe("format=e4m3 format=e5m2", &recipe), "once");
  expect_refused(parse_recipe("granularity=per_group(8) layout=packed", &recipe), "ue8m0_packed");
}

}  // namespace
}  // namespace rowscale
