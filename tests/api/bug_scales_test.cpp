// Public bug reports about scales, each with its stated input and right value: docs/bug-cases.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/recipes.hpp"
#include "tests/support/small_call.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};

uint32_t bits(float x) {
  return std::bit_cast<uint32_t>(x);
}

// Zeros but for x[1, 200] = 1: no group may divide by zero.
TEST(BugB01, ZeroGroupsHaveAFiniteScaleAndZeroCodes) {
  for (DType dtype : kFloats) {
    std::vector<float> x(2 * 256, 0.0F);
    for (const Recipe& recipe :
         {per_tensor(), per_token(), per_channel(), per_group(128), per_block(1, 128),
          with(per_group(128), ScaleEncoding::ue8m0_f32)}) {
      const Quantized zeros = quantized(dtype, x, {2, 256}, recipe);
      EXPECT_EQ(zeros.codes, std::vector<uint8_t>(512, 0x00)) << to_string(recipe);
      EXPECT_EQ(zeros.dequantized, std::vector<float>(512, 0.0F)) << to_string(recipe);
      for (float scale : zeros.scales) {
        EXPECT_TRUE(std::isfinite(scale) && scale > 0.0F) << scale << " " << to_string(recipe);
      }
    }
    EXPECT_EQ(bits(quantized(dtype, x, {2, 256}, per_group(128)).scales[0]), bits(2.2321428e-13F));
    x[256 + 200] = 1.0F;
    const Quantized q = quantized(dtype, x, {2, 256}, per_group(128));
    const float floor = 2.2321428e-13F;  // 1e-10 / 448
    EXPECT_EQ(q.scales, (std::vector<float>{floor, floor, floor, 1.0F / 448.0F}));
    for (size_t i = 0; i < 512; ++i) EXPECT_EQ(q.codes[i], i == 456 ? 0x7E : 0x00) << i;
  }
}

// The same through the fused operators: a weight of zeros, a gate of zero.
TEST(BugB01, FusedOperators) {
  for (DType dtype : kFloats) {
    const auto x = data_of(dtype, std::vector<float>(512, 1.5F));
    const std::vector<float> zeros(256, 0.0F);
    RmsNorm norm;
    norm.weight = view_of(zeros.data(), DType::f32, {256});
    const TensorView view = view_of(x.data(), dtype, {2, 256});
    for (const Recipe& recipe : {per_token(), per_group(128)}) {
      const Outputs out = call_quantizer(view, 256, recipe, {}, [&](const auto& c, const auto& s) {
        return rms_norm_quantize(view, norm, recipe, c, s);
      });
      EXPECT_EQ(to_u8(out.codes), std::vector<uint8_t>(512, 0x00));
      for (float scale : values_of(DType::f32, out.scales)) EXPECT_GT(scale, 0.0F);
    }
    std::vector<float> gated(512, 2.0F);
    for (size_t i = 0; i < 512; ++i) gated[i] = i % 256 < 128 ? 0.0F : 2.0F;
    const auto gates = data_of(dtype, gated);
    const TensorView pair = view_of(gates.data(), dtype, {2, 256});
    const Outputs out = call_quantizer(
        pair, 128, per_token(), {},
        [&](const auto& c, const auto& s) { return silu_mul_quantize(pair, per_token(), c, s); });
    EXPECT_EQ(to_u8(out.codes), std::vector<uint8_t>(256, 0x00));
    EXPECT_EQ(bits(values_of(DType::f32, out.scales)[0]), 0x36924925U);
  }
}

// A weight with one element: 49152 codes were NaN.
TEST(BugB02, ZeroBlocksOfAWeight) {
  std::vector<float> w(256 * 256, 0.0F);
  w[0] = 1.0F;
  const Quantized q = quantized(DType::bf16, w, {256, 256}, per_block(128, 128));
  EXPECT_EQ(q.scales[0], 1.0F / 448.0F);
  EXPECT_EQ(q.codes[0], 0x7E);
  EXPECT_EQ(std::count(q.codes.begin() + 1, q.codes.end(), 0x00), 256 * 256 - 1);
  // The variant with a tiny element: still far below the floor, still no NaN.
  w[200 * 256 + 200] = 1e-38F;
  const Quantized tiny = quantized(DType::bf16, w, {256, 256}, per_block(128, 128));
  EXPECT_EQ(std::count(tiny.codes.begin() + 1, tiny.codes.end(), 0x00), 256 * 256 - 1);
  EXPECT_EQ(bits(tiny.scales[3]), bits(2.2321428e-13F));
  // Every strategy gives the same bytes for a region of zeros.
  for (const Recipe& recipe : {per_tensor(), per_channel(), per_group(128), per_token()}) {
    const Quantized other = quantized(DType::bf16, w, {256, 256}, recipe);
    EXPECT_EQ(other.codes[0], 0x7E) << to_string(recipe);
    EXPECT_EQ(std::count(other.codes.begin() + 256, other.codes.begin() + 200 * 256, 0x00),
              199 * 256)
        << to_string(recipe);
  }
}

// Values whose reciprocal scale would overflow: every code is zero, of its sign.
TEST(BugB03, TinyValues) {
  std::vector<float> x(128, 1e-37F);
  for (size_t i = 1; i < 128; i += 2) x[i] = -1e-37F;
  for (DType dtype : {DType::bf16, DType::f32}) {
    for (const Recipe& recipe : {per_tensor(), per_token(), per_group(128), per_block(1, 128)}) {
      const Quantized q = quantized(dtype, x, {1, 128}, recipe);
      const bool amax_floor = recipe.granularity == Granularity::per_group ||
                              recipe.granularity == Granularity::per_block;
      EXPECT_EQ(bits(q.scales[0]), amax_floor ? bits(2.2321428e-13F) : bits(4.359654e-6F));
      for (size_t i = 0; i < 128; ++i) EXPECT_EQ(q.codes[i], i % 2 == 0 ? 0x00 : 0x80) << i;
    }
  }
}

TEST(BugB03, SubnormalsAreNotFlushed) {
  // Without a floor 1e-37 / 448 is a subnormal scale, and the codes are those of the largest value.
  std::vector<float> x(128, 1e-37F);
  x[1] = -1e-37F;
  Recipe recipe = per_token();
  recipe.floor.kind = FloorKind::none;
  const Quantized q = quantized(DType::f32, x, {1, 128}, recipe);
  EXPECT_EQ(bits(q.scales[0]), bits(2.2321423e-40F));
  EXPECT_EQ(q.codes[0], 0x7E);
  EXPECT_EQ(q.codes[1], 0xFE);
  // A row of subnormals: the scale is the subnormal quotient, nothing is NaN or infinite.
  const Quantized deep = quantized(DType::f32, std::vector<float>(128, 1e-40F), {1, 128}, recipe);
  EXPECT_GT(deep.scales[0], 0.0F);
  EXPECT_EQ(bits(deep.scales[0]), 159U);  // round(71362 / 448) steps of 2^-149
  for (uint8_t code : deep.codes) EXPECT_NE(code & 0x7F, 0x7F);
}

// A bound on amax: 1000 counts as 448, 2 stays 2.
TEST(BugB23, UpperBoundOfTheAmax) {
  std::vector<float> x(2 * 128, 0.0F);
  x[0] = 1000.0F;
  x[1] = 1.0F;
  x[128] = 2.0F;
  x[129] = 1.0F;
  Recipe recipe = per_token();
  recipe.bound = {BoundKind::amax, 448.0F};
  for (DType dtype : kFloats) {
    const Quantized q = quantized(dtype, x, {2, 128}, recipe);
    EXPECT_EQ(q.scales, (std::vector<float>{1.0F, 2.0F / 448.0F}));
    EXPECT_EQ(q.codes[0], 0x7E);
    EXPECT_EQ(q.codes[1], 0x38);
    EXPECT_EQ(q.codes[128], 0x7E);
    EXPECT_EQ(q.codes[129], 0x76);
  }
  // A row of 1e-9 stops at the documented floor; no bound is the absence of a bound.
  const Quantized tiny = quantized(DType::f32, std::vector<float>(128, 1e-9F), {1, 128}, recipe);
  EXPECT_EQ(bits(tiny.scales[0]), bits(4.359654e-6F));
  Recipe huge = per_token();
  huge.bound = {BoundKind::amax, INFINITY};
  EXPECT_EQ(quantized(DType::f32, x, {2, 128}, huge).codes,
            quantized(DType::f32, x, {2, 128}, per_token()).codes);
}

}  // namespace
}  // namespace rowscale::test
