// Ranks and leading dimensions, empty tensors, groups and blocks that do not divide the data,
// masked rows. Values are compared with those of the flattened tensor; small ones are worked out by
// hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

using Shape = std::vector<int64_t>;

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  return values_of(DType::f32, bytes);
}

std::vector<uint8_t> codes_of(const std::vector<std::byte>& bytes) {
  std::vector<uint8_t> codes(bytes.size());
  std::memcpy(codes.data(), bytes.data(), bytes.size());
  return codes;
}

TEST(LeadingDimensions, ScaleShapes) {
  struct Case {
    Shape data;
    Recipe recipe;
    Shape shape;
    Shape strides;
  };
  const std::vector<Case> cases = {
      {{256}, per_token(), {1}, {1}},
      {{256}, per_group(128), {2}, {1}},
      {{6, 256}, per_token(), {6, 1}, {1, 1}},
      {{2, 3, 256}, per_token(), {2, 3, 1}, {3, 1, 1}},
      {{2, 3, 256}, per_group(128), {2, 3, 2}, {6, 2, 1}},
      {{2, 3, 4, 256}, per_group(128), {2, 3, 4, 2}, {24, 8, 2, 1}},
      {{2, 3, 4, 256}, per_tensor(), {1}, {1}},
      {{2, 3, 256}, per_column(), {1, 256}, {256, 1}},
      {{2, 5, 300}, per_block(2, 128), {2, 3, 3}, {9, 3, 1}},
      {{300}, per_block(128, 128), {3}, {1}},
      {{2, 5, 300},
       with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major),
       {2, 5, 3},
       {15, 1, 5}},
      {{2, 5, 300},
       with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma),
       {2, 5, 3},
       {24, 1, 8}},
      {{2, 5, 300},
       with(per_group(128), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma),
       {2, 5, 3},
       {48, 1, 16}},
      {{2, 5, 700}, with(per_group(128), ScaleEncoding::ue8m0_packed), {2, 5, 2}, {16, 1, 8}},
      {{3, 5, 700},
       with(per_block(128, 128), ScaleEncoding::f32, ScaleLayout::block_k4),
       {3, 1, 6},
       {8, 8, 1}},
  };
  for (const Case& c : cases) {
    const ScaleSpec spec = spec_of(view_of(nullptr, DType::e4m3, c.data), c.recipe);
    EXPECT_EQ(shape_of(spec), c.shape) << to_string(c.recipe);
    EXPECT_EQ(strides_of(spec), c.strides) << to_string(c.recipe);
  }
}

// The same elements in any number of dimensions have the same codes and scales.
TEST(LeadingDimensions, ValuesAreThoseOfTheFlattenedTensor) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto bytes = make_data(Data::wide, dtype, 24 * 256, 3);
    const TensorView flat = view_of(bytes.data(), dtype, {24, 256});
    for (const Recipe& recipe : {per_token(), per_channel(), per_group(100), per_tensor(),
                                 with(per_group(64), ScaleEncoding::ue8m0), per_block(1, 128)}) {
      const Outputs expected = run_quantize(flat, recipe);
      for (const Shape& shape : {Shape{2, 12, 256}, Shape{2, 3, 4, 256}, Shape{1, 24, 1, 256},
                                 Shape{2, 1, 3, 1, 2, 1, 2, 256}}) {
        const TensorView x = view_of(bytes.data(), dtype, shape);
        EXPECT_TRUE(same_outputs(run_quantize(x, recipe), expected))
            << to_string(recipe) << ", " << to_string(x);
      }
    }
    const Outputs one = run_quantize(view_of(bytes.data(), dtype, {256}), per_group(100));
    const Outputs row = run_quantize(view_of(bytes.data(), dtype, {1, 256}), per_group(100));
    EXPECT_TRUE(same_outputs(one, row));
  }
}

// A block never reaches from one matrix of a stack into the next.
TEST(LeadingDimensions, StackOfMatrices) {
  const auto bytes = make_data(Data::wide, DType::bf16, 3 * 5 * 300, 4);
  for (const Recipe& recipe : block_recipes(2, 128)) {
    const TensorView x = view_of(bytes.data(), DType::bf16, {3, 5, 300});
    const Outputs stack = run_quantize(x, recipe);
    const ScaleSpec spec = spec_of(x, recipe);
    const int64_t matrix_bytes = spec.strides[0] * element_size(spec.dtype);
    for (int64_t b = 0; b < 3; ++b) {
      const Outputs one =
          run_quantize(view_of(bytes.data() + b * 5 * 300 * 2, DType::bf16, {5, 300}), recipe);
      EXPECT_TRUE(
          std::equal(one.codes.begin(), one.codes.end(), stack.codes.begin() + b * 5 * 300));
      EXPECT_TRUE(
          std::equal(one.scales.begin(), one.scales.end(), stack.scales.begin() + b * matrix_bytes))
          << to_string(recipe) << ", matrix " << b;
    }
  }
}

TEST(Units, ShortLastGroup) {
  // Groups of 4 over 10 elements: 4, 4 and 2 of them.
  const auto x = data_of(DType::f32, {448, 1, 1, 1, 2, 2, 2, -896, 0.5F, -448.0F / 64});
  const Outputs out = run_quantize(view_of(x.data(), DType::f32, {1, 10}), per_group(4));
  EXPECT_EQ(floats_of(out.scales), (std::vector<float>{1.0F, 2.0F, 0.015625F}));
  EXPECT_EQ(codes_of(out.codes),
            (std::vector<uint8_t>{0x7E, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38, 0xFE, 0x60, 0xFE}));
}

TEST(Units, LargerThanTheData) {
  const auto bytes = make_data(Data::normal, DType::f32, 3 * 50, 5);
  const TensorView x = view_of(bytes.data(), DType::f32, {3, 50});
  Recipe token = per_token();
  token.floor = {FloorKind::amax, 1e-10F};
  const Outputs expected = run_quantize(x, token);
  for (int64_t size : {int64_t{50}, int64_t{51}, int64_t{1} << 40, INT64_MAX}) {
    EXPECT_TRUE(same_outputs(run_quantize(x, per_group(size)), expected)) << size;
  }
  // A block that covers all is the tensor.
  Recipe tensor = per_tensor();
  tensor.floor = {FloorKind::amax, 1e-10F};
  const Outputs whole = run_quantize(x, tensor);
  for (int64_t size : {int64_t{50}, int64_t{1} << 40, INT64_MAX}) {
    EXPECT_TRUE(same_outputs(run_quantize(x, per_block(size, size)), whole)) << size;
  }
}

TEST(Units, OneElement) {
  const auto x = data_of(DType::f32, {-3.0F});
  for (const Shape& shape : {Shape{1}, Shape{1, 1}, Shape{1, 1, 1}}) {
    for (const Recipe& recipe : {per_tensor(), per_token(), per_group(128), per_block(128, 128)}) {
      const Outputs out = run_quantize(view_of(x.data(), DType::f32, shape), recipe);
      EXPECT_EQ(floats_of(out.scales), (std::vector<float>{3.0F / 448.0F})) << to_string(recipe);
      EXPECT_EQ(codes_of(out.codes), (std::vector<uint8_t>{0xFE})) << to_string(recipe);
    }
  }
}

// No rows: nothing is read (the pointer is null) and nothing is written but a tensor's one scale.
TEST(Empty, NoRows) {
  for (const Shape& shape : {Shape{0, 7168}, Shape{0, 0}, Shape{3, 0, 64}, Shape{0, 3, 64}}) {
    const TensorView x = view_of(nullptr, DType::bf16, shape);
    for (const Recipe& recipe : all_recipes(128, 128, 128)) {
      if (recipe.granularity == Granularity::per_column) continue;
      const TensorView codes = view_of(nullptr, DType::e4m3, shape);
      const ScaleSpec spec = spec_of(codes, recipe);
      if (recipe.granularity == Granularity::per_tensor) {
        EXPECT_EQ(spec.storage, 1);
      } else {
        EXPECT_EQ(spec.storage, 0) << to_string(recipe);
      }
      GuardedBuffer scales(scale_bytes(spec));
      Status status = quantize(x, recipe, codes, spec.view(scales.data()));
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(scales.guards_are_unchanged());
      if (recipe.granularity == Granularity::per_tensor) {
        // The floor: 1 / (448 * 512), rounded up to 2^-17 as a power of two.
        if (recipe.encoding == ScaleEncoding::f32) {
          EXPECT_EQ(std::bit_cast<uint32_t>(floats_of(scales.content())[0]), 0x36924925U);
        } else if (recipe.encoding == ScaleEncoding::ue8m0_f32) {
          EXPECT_EQ(floats_of(scales.content())[0], 0x1p-17F);
        } else {
          EXPECT_EQ(std::to_integer<int>(scales.content()[0]), 127 - 17);
        }
      }
      status = dequantize(codes, spec.view(scales.data()), recipe, x);
      EXPECT_TRUE(status.ok()) << status.message();
      GuardedBuffer out(scale_bytes(spec));
      const TensorView out_view = spec.view(out.data());
      status = requantize(codes, spec.view(scales.data()), recipe, codes, out_view, recipe);
      EXPECT_TRUE(status.ok()) << status.message();
      status = relayout_scales(codes, spec.view(scales.data()), recipe, out_view, recipe);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(same_bytes(out.content(), scales.content())) << to_string(recipe);
      EXPECT_TRUE(out.guards_are_unchanged());
    }
  }
}

// What is only read has no data either: one scale of a tensor or a column, weights.
TEST(Empty, GivenScalesWithoutRows) {
  const TensorView x = view_of(nullptr, DType::bf16, {0, 300});
  const TensorView codes = view_of(nullptr, DType::e4m3, {0, 300});
  for (const Recipe& recipe : {per_tensor(), per_token(), per_column(), per_group(128),
                               per_block(128, 128), with(per_tensor(), ScaleEncoding::ue8m0)}) {
    const TensorView scales = spec_of(codes, recipe).view(static_cast<void*>(nullptr));
    const Recipe given = with(recipe, ScaleSource::given);
    EXPECT_TRUE(quantize(x, given, codes, scales).ok()) << to_string(given);
    EXPECT_TRUE(dequantize(codes, scales, recipe, x).ok()) << to_string(recipe);
    EXPECT_TRUE(requantize(codes, scales, recipe, codes, scales, given).ok()) << to_string(recipe);
    EXPECT_TRUE(relu2_quantize(x, given, codes, scales).ok()) << to_string(given);
  }
  // This one is written.
  const TensorView none = view_of(nullptr, DType::f32, {1});
  EXPECT_EQ(quantize(x, per_tensor(), codes, none).message(),
            "scales: expected f32 [1] strides [1], got a null pointer");
  EXPECT_EQ(requantize(codes, none, per_tensor(), codes, none, per_tensor()).message(),
            "scales_out: expected f32 [1] strides [1], got a null pointer");
}

TEST(Empty, LatentAttentionWithoutRows) {
  MlaNorm norm;
  norm.q_weight = view_of(nullptr, DType::bf16, {64});
  norm.kv_weight = view_of(nullptr, DType::f32, {32});
  MlaOutputs out;
  out.q_codes = view_of(nullptr, DType::e4m3, {0, 64});
  out.q_scales = view_of(nullptr, DType::f32, {0, 2});
  out.kv = view_of(nullptr, DType::bf16, {0, 32});
  out.kv_codes = view_of(nullptr, DType::e4m3, {0, 32});
  out.kv_scales = view_of(nullptr, DType::f32, {1});
  out.rope = view_of(nullptr, DType::bf16, {0, 8});
  const Status status =
      mla_norm_quantize(view_of(nullptr, DType::bf16, {0, 104}), norm, per_group(32),
                        with(per_tensor(), ScaleSource::given), out);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Empty, ProducersWithoutRows) {
  RmsNorm norm;
  norm.weight = view_of(nullptr, DType::f32, {64});
  const TensorView x = view_of(nullptr, DType::bf16, {0, 64});
  const TensorView half = view_of(nullptr, DType::bf16, {0, 32});
  EXPECT_TRUE(rms_norm(x, norm, x).ok());
  EXPECT_TRUE(silu_mul(x, half).ok());
  EXPECT_TRUE(gelu_tanh_mul(x, half).ok());
  EXPECT_TRUE(relu2(x, x).ok());
  EXPECT_TRUE(swiglu_clamped(x, {}, half).ok());
  for (const Recipe& recipe : group_recipes(16)) {
    const TensorView codes = view_of(nullptr, DType::e4m3, {0, 64});
    const TensorView half_codes = view_of(nullptr, DType::e4m3, {0, 32});
    const TensorView scales = spec_of(codes, recipe).view(static_cast<void*>(nullptr));
    const TensorView half_scales = spec_of(half_codes, recipe).view(static_cast<void*>(nullptr));
    EXPECT_TRUE(rms_norm_quantize(x, norm, recipe, codes, scales).ok());
    EXPECT_TRUE(silu_mul_quantize(x, recipe, half_codes, half_scales).ok());
    EXPECT_TRUE(gelu_tanh_mul_quantize(x, recipe, half_codes, half_scales).ok());
    EXPECT_TRUE(relu2_quantize(x, recipe, codes, scales).ok());
    EXPECT_TRUE(swiglu_clamped_quantize(x, {}, recipe, half_codes, half_scales).ok());
  }
}

}  // namespace
}  // namespace rowscale::test
