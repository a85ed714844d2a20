// Public bug reports about scales that are powers of two: docs/bug-cases.md.
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

// By exponent bits, exact at powers of two and on both sides of them.
TEST(BugB05, PowersOfTwo) {
  for (int k = -40; k <= 40; ++k) {
    const float exact = std::ldexp(448.0F, k);
    struct Case {
      float amax;
      int exponent;
    };
    for (const Case& c : {Case{exact, k}, Case{std::nextafter(exact, INFINITY), k + 1},
                          Case{std::nextafter(exact, 0.0F), k}}) {
      std::vector<float> x(128, 0.0F);
      x[77] = -c.amax;
      // Below 1e-10 the floor of UE8M0 decides: 2^-33 is the first power of two above it.
      const int exponent = std::max(c.exponent, -33);
      Recipe recipe = with(per_group(128), ScaleEncoding::ue8m0);
      recipe.floor.kind = FloorKind::none;
      EXPECT_EQ(quantized(DType::f32, x, {1, 128}, recipe).bytes[0], 127 + exponent)
          << "amax " << c.amax << ", k " << k;
      recipe.encoding = ScaleEncoding::ue8m0_f32;
      EXPECT_EQ(quantized(DType::f32, x, {1, 128}, recipe).scales[0], std::ldexp(1.0F, exponent));
    }
  }
}

TEST(BugB05, KeyCase) {
  std::vector<float> x(128, 0.0F);
  x[0] = 0x1.c00004p-12F;  // / 448 = 2^-20 * (1 + 2^-23): log2 in fp32 gives -20
  const Quantized q =
      quantized(DType::f32, x, {1, 128}, with(per_group(128), ScaleEncoding::ue8m0));
  EXPECT_EQ(q.bytes[0], 127 - 19);
  EXPECT_LT(q.codes[0], 0x7E);  // it does not pass 448
}

// [1.0, 1.5, 1.0, 1.0] is no UE8M0: refused, never a truncated or unmasked word.
TEST(BugB07, OrdinaryScalesAreNotPacked) {
  std::vector<float> scales = {1.0F, 1.5F, 1.0F, 1.0F};
  const TensorView codes = view_of(nullptr, DType::e4m3, {1, 4});
  const Recipe packed = with(per_group(1), ScaleEncoding::ue8m0_packed);
  uint32_t word = 0xA5A5A5A5U;
  for (ScaleEncoding encoding : {ScaleEncoding::f32, ScaleEncoding::ue8m0_f32}) {
    const Recipe in = with(per_group(1), encoding);
    const Status status = relayout_scales(codes, view_of(scales.data(), DType::f32, {1, 4}), in,
                                          view_of(&word, DType::i32, {1, 1}), packed);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_EQ(word, 0xA5A5A5A5U);
  }
  scales[1] = 2.0F;
  const Status status = relayout_scales(codes, view_of(scales.data(), DType::f32, {1, 4}),
                                        with(per_group(1), ScaleEncoding::ue8m0_f32),
                                        view_of(&word, DType::i32, {1, 1}), packed);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(word, 0x7F7F807FU);
}

// The data are divided by the scale as it is stored: 1.0 / 2^-8 = 256 = 0x78, not 0x7E.
TEST(BugB08, DataFollowTheRoundedScale) {
  std::vector<float> x(128, 0.0F);
  x[0] = 1.0F;
  for (DType dtype : kFloats) {
    const Quantized q = quantized(dtype, x, {1, 128}, with(per_group(128), ScaleEncoding::ue8m0));
    EXPECT_EQ(q.bytes[0], 127 - 8);
    EXPECT_EQ(q.codes[0], 0x78);
    EXPECT_EQ(q.dequantized[0], 1.0F);
  }
}

TEST(BugB08, AWeightOfOnesThroughRequantize) {
  std::vector<uint8_t> codes(128 * 128, 0x7E);
  const float scale = 1.0F / 448.0F;
  const Recipe in = per_block(128, 128);
  const Recipe out = with(in, ScaleEncoding::ue8m0_f32);
  float new_scale = 0.0F;
  const TensorView view = view_of(codes.data(), DType::e4m3, {128, 128});
  ASSERT_TRUE(requantize(view, view_of(&scale, DType::f32, {1, 1}), in, view,
                         view_of(&new_scale, DType::f32, {1, 1}), out)
                  .ok());
  EXPECT_EQ(new_scale, 0x1p-8F);
  EXPECT_EQ(codes, std::vector<uint8_t>(128 * 128, 0x78));
}

// The amax stays fp32: in bf16 448.109375 would be 448 and the scale 2^0.
TEST(BugB11, AmaxIsNotRoundedFirst) {
  std::vector<float> x(128, 0.0F);
  x[3] = 448.109375F;
  const Quantized q =
      quantized(DType::f32, x, {1, 128}, with(per_group(128), ScaleEncoding::ue8m0));
  EXPECT_EQ(q.bytes[0], 128);   // 2^1
  EXPECT_EQ(q.codes[3], 0x76);  // 224.05 -> 224
}

// Round-up of fp32 to E8M0, by the scale that a group gets.
TEST(BugB22, RoundUp) {
  struct Case {
    float scale;
    uint8_t byte;
  };
  for (const Case& c : {Case{1.0F, 0x7F}, Case{1.25F, 0x80}, Case{1.5F, 0x80}, Case{1.75F, 0x80},
                        Case{2.0F, 0x80}, Case{0x1.000002p0F, 0x80}}) {
    const Quantized q =
        quantized(DType::f32, {c.scale * 448.0F}, {1, 1}, with(per_group(1), ScaleEncoding::ue8m0));
    EXPECT_EQ(q.bytes[0], c.byte) << c.scale;
  }
  // From a finite amax never 255, from the largest at most 2^119; infinity is 255.
  EXPECT_EQ(
      quantized(DType::f32, {0x1.fffffep127F}, {1, 1}, with(per_group(1), ScaleEncoding::ue8m0))
          .bytes[0],
      127 + 120);
  EXPECT_EQ(
      quantized(DType::f32, {INFINITY}, {1, 1}, with(per_group(1), ScaleEncoding::ue8m0)).bytes[0],
      255);
  // Zero: the floor 1e-10 gives 2^-33. The bytes of the ends decode to what they stand for.
  Recipe none = with(per_group(1), ScaleEncoding::ue8m0);
  none.floor.kind = FloorKind::none;
  EXPECT_EQ(quantized(DType::f32, {0.0F}, {1, 1}, none).bytes[0], 127 - 33);
}

// Exponents of scales below 1, rounded up; none is off by one.
TEST(BugB26, ScalesBelowOne) {
  struct Case {
    float scale;
    uint8_t byte;
  };
  for (const Case& c : {Case{0.25F, 125}, Case{0.5F, 126}, Case{1.0F, 127}, Case{0.3F, 126},
                        Case{0.75F, 127}, Case{1.5F, 128}, Case{3.0F, 129}}) {
    // 448 * scale / 448 is the scale again for these.
    const Quantized q =
        quantized(DType::f32, {c.scale * 448.0F}, {1, 1}, with(per_token(), ScaleEncoding::ue8m0));
    EXPECT_EQ(q.bytes[0], c.byte) << c.scale;
    // A given float that is no power of two is not converted without its codes.
    uint8_t byte = 0xA5;
    const TensorView codes = view_of(nullptr, DType::e4m3, {1, 1});
    const Status status = relayout_scales(
        codes, view_of(&c.scale, DType::f32, {1, 1}), with(per_token(), ScaleEncoding::ue8m0_f32),
        view_of(&byte, DType::ue8m0, {1, 1}), with(per_token(), ScaleEncoding::ue8m0));
    int exponent = 0;
    const bool is_power = std::frexp(c.scale, &exponent) == 0.5F;
    EXPECT_EQ(status.ok(), is_power) << c.scale;
    EXPECT_EQ(byte, is_power ? c.byte : 0xA5) << c.scale;
  }
}

// An error of the conversion of a random weight to powers of two that is what it must be, no more:
// the result is that of quantizing the dequantized weight.
TEST(BugB72, ConversionToUe8m0ReportsWhatQuantizingGives) {
  const auto w = make_data(Data::normal, DType::f32, 512 * 512, 72);
  const Recipe in = per_block(128, 128);
  const Recipe out = with(in, ScaleEncoding::ue8m0_f32);
  const Quantized q = quantized(view_of(w.data(), DType::f32, {512, 512}), in);
  const Quantized direct = quantized(DType::f32, q.dequantized, {512, 512}, out);
  std::vector<uint8_t> codes(512 * 512);
  std::vector<float> scales(16);
  const TensorView in_codes = view_of(q.codes.data(), DType::e4m3, {512, 512});
  const TensorView out_codes = view_of(codes.data(), DType::e4m3, {512, 512});
  ASSERT_TRUE(requantize(in_codes, view_of(q.scales.data(), DType::f32, {4, 4}), in, out_codes,
                         view_of(scales.data(), DType::f32, {4, 4}), out)
                  .ok());
  EXPECT_EQ(codes, direct.codes);
  EXPECT_EQ(scales, direct.scales);
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < q.dequantized.size(); ++i) {
    error += std::pow(double{direct.dequantized[i]} - double{q.dequantized[i]}, 2);
    norm += std::pow(double{q.dequantized[i]}, 2);
  }
  EXPECT_LE(std::sqrt(error / norm), 0.03);
  EXPECT_GT(std::sqrt(error / norm), 0.001);  // lossy it is
}

}  // namespace
}  // namespace rowscale::test
