// Public bug reports about codes, rounding and special values: docs/bug-cases.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/code_table.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/small_call.hpp"

namespace rowscale::test {
namespace {

using Codes = std::vector<uint8_t>;

// Through fp16 or bf16 these four land on midpoints and go down.
TEST(BugB10, NoDoubleRounding) {
  EXPECT_EQ(codes_at(1.0F, {400.199585F, 272.156555F, 136.002075F, 1.0625001F, 1.0625F}),
            (Codes{0x7D, 0x79, 0x71, 0x39, 0x38}));
}

TEST(BugB10, EveryMidpointAndItsNeighbours) {
  for (Format format : {Format::e4m3, Format::e5m2}) {
    const CodeTable& table = format == Format::e4m3 ? e4m3_table() : e5m2_table();
    std::vector<float> x;
    Codes expected;
    for (uint32_t code = 0; code < table.last_code(); ++code) {
      const auto middle = static_cast<float>(table.midpoint(code));
      for (float sign : {1.0F, -1.0F}) {
        const auto sign_bit = static_cast<uint8_t>(sign < 0 ? 0x80 : 0);
        x.push_back(sign * std::nextafter(middle, 0.0F));
        expected.push_back(static_cast<uint8_t>(sign_bit | code));
        x.push_back(sign * middle);
        expected.push_back(static_cast<uint8_t>(sign_bit | (code % 2 == 0 ? code : code + 1)));
        x.push_back(sign * std::nextafter(middle, INFINITY));
        expected.push_back(static_cast<uint8_t>(sign_bit | (code + 1)));
      }
    }
    EXPECT_EQ(codes_at(1.0F, x, format), expected);
  }
}

// Quotients that are exact ties under IEEE division; an ulp more gives the next code.
TEST(BugB12, ExactQuotientsAtTies) {
  std::vector<float> x(128, 0.0F);
  x[0] = 1.078125F;
  x[1] = 0.404296875F;
  x[2] = 0.80859375F;
  x[3] = 0.2021484375F;
  const Quantized q = quantized(DType::bf16, x, {1, 128}, per_group(128));
  EXPECT_EQ(Codes(q.codes.begin(), q.codes.begin() + 4), (Codes{0x7E, 0x72, 0x7A, 0x6A}));
  // 4.6875 / 0.9375 is exactly 5 = 0x4A.
  EXPECT_EQ(codes_at(0.9375F, {4.6875F}), (Codes{0x4A}));
}

TEST(BugB13, TheQuotientIsADivision) {
  struct Case {
    float amax, x;
    uint8_t divided;
  };
  for (const Case& c :
       {Case{1.53125F, 0.005340576171875F, 0x3C}, Case{1.078125F, 0.404296875F, 0x72},
        Case{1.203125F, 0.006378173828125F, 0x42}}) {
    std::vector<float> x(128, 0.0F);
    x[0] = c.amax;
    x[99] = c.x;
    for (DType dtype : {DType::bf16, DType::f32}) {
      for (const Recipe& recipe : {per_group(128), per_token(), per_tensor(), per_block(1, 128)}) {
        EXPECT_EQ(quantized(dtype, x, {1, 128}, recipe).codes[99], c.divided)
            << c.amax << ": " << to_string(recipe);
      }
    }
  }
  // The recipe's other quotient, x * (1/s), differs for the second, as the report says.
  Recipe reciprocal = per_token();
  reciprocal.quotient = Quotient::reciprocal;
  std::vector<float> x(128, 0.0F);
  x[0] = 1.078125F;
  x[99] = 0.404296875F;
  EXPECT_EQ(quantized(DType::bf16, x, {1, 128}, reciprocal).codes[99], 0x73);
}

TEST(BugB14, Saturation) {
  EXPECT_EQ(codes_at(1.0F, {448.0F, 464.0F, 464.0001F, 465.0F, 480.0F, 1000.0F, -1000.0F, INFINITY,
                            -INFINITY, 3e38F, -3e38F}),
            (Codes{0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x7E, 0xFE, 0x7E, 0xFE}));
  EXPECT_EQ(codes_at(1.0F, {57344.0F, 61440.0F, 65536.0F, INFINITY, -1e30F}, Format::e5m2),
            (Codes{0x7B, 0x7B, 0x7B, 0x7B, 0xFB}));
}

// Static scales and outliers that calibration did not see.
TEST(BugB15, NoNanFromFiniteInput) {
  const std::vector<float> x = {4.47F, 4.48F, 4.65F, 5.0F, -1e4F, 3e38F};
  EXPECT_EQ(codes_at(0.01F, x), (Codes{0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x7E}));
  Recipe recipe = with(per_tensor(), ScaleSource::given);
  recipe.quotient = Quotient::reciprocal;
  EXPECT_EQ(quantized(DType::f32, x, {1, 6}, recipe, {0.01F}).codes,
            (Codes{0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x7E}));
  // And by rows with scales of their own.
  EXPECT_EQ(quantized(DType::f32, {3e38F, -3e38F}, {2, 1}, with(per_token(), ScaleSource::given),
                      {0.01F, 0.01F})
                .codes,
            (Codes{0x7E, 0xFE}));
}

TEST(BugB16, NanStaysNan) {
  const uint16_t kNans[] = {0x7FC0, 0x7F81, 0xFFC0, 0xFF81, 0x7FFF};
  for (uint16_t nan : kNans) {
    std::vector<uint16_t> x(128, 0x3F80);
    x[5] = nan;
    for (const Recipe& recipe : {per_token(), per_group(128), per_tensor(), per_block(1, 128)}) {
      const Quantized q = quantized(view_of(x.data(), DType::bf16, {1, 128}), recipe);
      EXPECT_EQ(q.scales, (std::vector<float>{1.0F / 448.0F})) << to_string(recipe);
      for (size_t i = 0; i < 128; ++i) EXPECT_EQ(q.codes[i], i == 5 ? 0x7F : 0x7E) << i;
    }
  }
  // A row of nothing but NaN has the floor's scale.
  const std::vector<uint16_t> all(128, 0x7FC0);
  const Quantized q = quantized(view_of(all.data(), DType::bf16, {1, 128}), per_group(128));
  EXPECT_EQ(q.scales, (std::vector<float>{2.2321428e-13F}));
  EXPECT_EQ(q.codes, Codes(128, 0x7F));
}

// An infinite amax: the scale is infinite, finite elements give a zero of their sign, infinite ones
// are inf / inf. The list recommends a policy; this is the one that docs/numerics.md chooses.
TEST(BugB16, Infinity) {
  std::vector<float> x(128, 1.0F);
  x[5] = INFINITY;
  x[6] = -INFINITY;
  x[7] = -1.0F;
  const Quantized q = quantized(DType::bf16, x, {1, 128}, per_token());
  EXPECT_EQ(q.scales, (std::vector<float>{INFINITY}));
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(q.codes[i], i == 5 || i == 6 ? 0x7F : (i == 7 ? 0x80 : 0x00)) << i;
  }
}

// All floats 2^k * (1 + j/16): an independent table search, and the values in focus.
TEST(BugB17, RangeEndsAndTies) {
  EXPECT_EQ(codes_at(1.0F, {256.0F, 272.0F, 304.0F, 320.0F, 416.0F, 1.0625F, 1.1875F}),
            (Codes{0x78, 0x78, 0x7A, 0x7A, 0x7D, 0x38, 0x3A}));
  std::vector<float> x;
  Codes expected;
  for (int k = -12; k <= 9; ++k) {
    for (int j = 0; j < 16; ++j) {
      const double value = std::ldexp(16 + j, k - 4);
      for (double sign : {1.0, -1.0}) {
        x.push_back(static_cast<float>(sign * value));
        const uint32_t nearest = std::min<uint32_t>(e4m3_table().nearest(value), 0x7E);
        expected.push_back(static_cast<uint8_t>((sign < 0 ? 0x80 : 0) | nearest));
      }
    }
  }
  EXPECT_EQ(codes_at(1.0F, x), expected);
}

TEST(BugB20, Subnormals) {
  const Codes codes = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,
                       0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87};
  const std::vector<float> values = {0.001953125F, 0.00390625F,   0.005859375F, 0.0078125F,
                                     0.009765625F, 0.01171875F,   0.013671875F, -0.001953125F,
                                     -0.00390625F, -0.005859375F, -0.0078125F,  -0.009765625F,
                                     -0.01171875F, -0.013671875F};
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    EXPECT_EQ(values_of_codes(codes, Format::e4m3, dtype), values);
  }
  EXPECT_EQ(codes_at(1.0F, values), codes);
  // (m + 0.5) * 2^-9: 0 1 2 3 4 5 6 7 -> the even one of the two neighbours.
  std::vector<float> midpoints;
  for (int m = 0; m < 8; ++m) midpoints.push_back(std::ldexp(static_cast<float>(2 * m + 1), -10));
  EXPECT_EQ(codes_at(1.0F, midpoints), (Codes{0x00, 0x02, 0x02, 0x04, 0x04, 0x06, 0x06, 0x08}));
  EXPECT_EQ(codes_at(1.0F, {0x1p-10F, 0x1p-10F * 1.001F, 3 * 0x1p-10F}), (Codes{0x00, 0x01, 0x02}));
}

TEST(BugB21, DecodeAllBytes) {
  Codes codes(256);
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const std::vector<float> e4m3 = values_of_codes(codes, Format::e4m3, dtype);
    const std::vector<float> e5m2 = values_of_codes(codes, Format::e5m2, dtype);
    for (uint32_t code = 0; code < 256; ++code) {
      const float sign = code < 128 ? 1.0F : -1.0F;
      const uint32_t magnitude = code & 0x7F;
      if (magnitude == 0x7F) {
        EXPECT_TRUE(std::isnan(e4m3[code])) << code;
      } else {
        const auto want = static_cast<float>(value_by_definition(magnitude, 3, 7));
        EXPECT_EQ(std::bit_cast<uint32_t>(e4m3[code]), std::bit_cast<uint32_t>(sign * want))
            << code;
      }
      if (magnitude > 0x7C) {
        EXPECT_TRUE(std::isnan(e5m2[code])) << code;
      } else {
        const float want = magnitude == 0x7C
                               ? INFINITY
                               : static_cast<float>(value_by_definition(magnitude, 2, 15));
        EXPECT_EQ(std::bit_cast<uint32_t>(e5m2[code]), std::bit_cast<uint32_t>(sign * want))
            << code;
      }
    }
    EXPECT_EQ(e4m3[0x7E], 448.0F);
    EXPECT_EQ(e4m3[0xFE], -448.0F);
    EXPECT_TRUE(std::signbit(e4m3[0x80]) && e4m3[0x80] == 0.0F);
  }
}

// A platform never changes a result: every target's constants are those of the format.
TEST(BugB19, TheMaximumBelongsToTheFormat) {
  std::vector<float> x(128, 0.0F);
  x[9] = 1.0F;
  const Quantized e4m3 = quantized(DType::f32, x, {1, 128}, per_token());
  EXPECT_EQ(e4m3.scales[0], 1.0F / 448.0F);
  EXPECT_EQ(e4m3.codes[9], 0x7E);
  const Quantized e5m2 = quantized(DType::f32, x, {1, 128}, with(per_token(), Format::e5m2));
  EXPECT_EQ(e5m2.scales[0], 1.0F / 57344.0F);
  EXPECT_EQ(e5m2.codes[9], 0x7B);
}

}  // namespace
}  // namespace rowscale::test
