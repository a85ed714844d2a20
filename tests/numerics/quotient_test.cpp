// The quotient, and the proof that its shortcuts have the same codes. The reasoning: a code changes
// only where y passes a midpoint between two codes, and all midpoints of both formats are m * 2^k
// with an odd m below 32. So it is enough that a shortcut and x / s always lie on the same side of
// m * 2^k, and for a given s only x near m * s can fail. Scaling by powers of two changes nothing
// as long as nothing underflows, so one exponent stands for all but those at the ends of the valid
// range. Full ranges run in quotient_long_test.cpp; the checks are in quotient_checks.hpp.
#include "numerics/quotient.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/numerics/quotient_checks.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::bits_of;
using test::float_of;
using test::Mismatches;
using test::step_away;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Deterministic patterns that fill 32 bits evenly.
uint32_t scatter(uint64_t i) {
  uint64_t z = i * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<uint32_t>(z >> 32);
}

// A float in [2^-80, 2^80).
float scattered_scale(uint64_t i) {
  const uint32_t exponent = 127U - 80U + scatter(2 * i) % 160U;
  return float_of((exponent << 23) | (scatter(2 * i + 1) & 0x7FFFFFU));
}

template <class Shortcut, class F>
uint8_t fast_code(float x, float s) {
  return encode<F>(Shortcut::quotient(x, Shortcut::prepare(s)));
}

template <class F>
uint8_t ieee_code(float x, float s) {
  return encode<F>(test::div_exactly(x, s));
}

TEST(Division, IsTheExactQuotientRoundedOnce) {
  Mismatches found;
  for (uint64_t i = 0; i < 2'000'000 / test::kSlower; ++i) {
    const float x = float_of(scatter(3 * i));
    const float s = float_of(scatter(3 * i + 1));
    const float want = test::div_exactly(x, s);
    const float got = quotient(x, s, Quotient::divide);
    if (std::isnan(got) && std::isnan(want)) continue;
    found.check(bits_of(x), bits_of(got), bits_of(want), bits_of(s));
    // Exponents close together, so that most quotients are of the size of codes.
    const float near_s = float_of((bits_of(s) & 0x807FFFFFU) | ((100U + i % 56U) << 23));
    const float near_x = float_of((bits_of(x) & 0x807FFFFFU) | ((110U + i % 37U) << 23));
    found.check(bits_of(near_x), bits_of(quotient(near_x, near_s, Quotient::divide)),
                bits_of(test::div_exactly(near_x, near_s)), bits_of(near_s));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

TEST(Division, SubnormalQuotients) {
  EXPECT_EQ(bits_of(quotient(0x1p-140F, 3.0F, Quotient::divide)), 171U);  // 512 / 3 = 170.67
  EXPECT_EQ(bits_of(quotient(0x1p-149F, 2.0F, Quotient::divide)), 0U);    // tie, to even
  EXPECT_EQ(bits_of(quotient(0x3p-149F, 2.0F, Quotient::divide)), 2U);    // tie, to even
  EXPECT_EQ(bits_of(quotient(-0x1p-149F, 2.0F, Quotient::divide)), 0x80000000U);
}

TEST(Reciprocal, IsTwoRoundings) {
  Mismatches found;
  for (uint64_t i = 0; i < 1'000'000 / test::kSlower; ++i) {
    const float s = scattered_scale(i);
    const float x = float_of(scatter(i) & 0xC7FFFFFFU);
    if (std::isnan(x)) continue;
    const float want = test::mul_exactly(x, test::div_exactly(1.0F, s));
    found.check(bits_of(x), bits_of(quotient(x, s, Quotient::reciprocal)), bits_of(want),
                bits_of(s));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

// The two quotients are different contracts: without this the recipe's choice could be ignored and
// no test would notice.
TEST(Reciprocal, HasOtherCodesThanDivideNowAndThen) {
  int differ = 0;
  for (uint32_t amax = 0x3F80; amax < 0x4000; ++amax) {
    const float s = float_of(amax << 16) / 448.0F;
    for (uint32_t x = 0x3900; x <= amax; ++x) {
      const float y = float_of(x << 16);
      const uint8_t divided = encode<E4m3>(quotient(y, s, Quotient::divide));
      differ += divided != encode<E4m3>(quotient(y, s, Quotient::reciprocal)) ? 1 : 0;
    }
  }
  EXPECT_GT(differ, 0);
}

template <class Shortcut>
class FastQuotient : public testing::Test {};
using Shortcuts = testing::Types<Corrected, LongReciprocal>;
TYPED_TEST_SUITE(FastQuotient, Shortcuts);

TYPED_TEST(FastQuotient, SameSideOfEveryDecisionPoint) {
  // e4m3 has its midpoints from 2^-10 on, e5m2 from 2^-17 on.
  const Mismatches found = check_decision_points<TypeParam>(
      {.scale_exponent = 0, .point_exponent = -10, .stride = 7 * test::kSlower});
  EXPECT_GT(found.checked, 10'000'000U / test::kSlower);
  EXPECT_EQ(found.count, 0U) << found;
}

// At the ends of the range the scaling argument needs care. Below, the residue q0 * s - x becomes
// subnormal and is rounded; above, the reciprocal does. Every binade of small scales that the
// library calls valid is looked at, each with the lowest midpoints of both formats.
TYPED_TEST(FastQuotient, SameSideAtTheEndsOfTheValidRange) {
  for (int exponent = -126; exponent <= 125; exponent += exponent == -80 ? 170 : 1) {
    if (!fast_quotient_is_valid(std::ldexp(1.0F, exponent))) continue;
    for (const int point_exponent : {-17, -10, 0}) {
      const Mismatches found = check_decision_points<TypeParam>({.scale_exponent = exponent,
                                                                 .point_exponent = point_exponent,
                                                                 .stride = 2003 * test::kSlower});
      EXPECT_EQ(found.count, 0U) << exponent << ' ' << point_exponent << ": " << found;
    }
  }
}

// The two hardest inputs of each binade, at the lowest midpoints of e5m2 (2^-17) and e4m3 (2^-10).
// First: x / s is 3 midpoints less almost half an ulp, so it rounds to the tie between the codes 1
// and 2, which goes to 2. Second: x / s is one midpoint and a little more than half an ulp, so it
// rounds to above the tie between 0 and 1. Where the residue of the corrected quotient is rounded
// in the subnormals, it gives 1 and 0: in e5m2 for some s below 2^-86, in e4m3 below 2^-94.
template <class Shortcut, class F>
void check_hardest_ties(int exponent, int midpoint_exponent) {
  const float s = step_away(std::ldexp(1.0F, exponent), 1);
  const float x = step_away(std::ldexp(3.0F, exponent + midpoint_exponent), 1);
  EXPECT_EQ(ieee_code<F>(x, s), 0x02) << exponent;
  if (fast_quotient_is_valid(s)) {
    EXPECT_EQ((fast_code<Shortcut, F>(x, s)), 0x02) << "s = 2^" << exponent << " * (1 + 2^-23)";
  }
  const float below = step_away(std::ldexp(1.0F, exponent), -1);
  const float power = std::ldexp(1.0F, exponent + midpoint_exponent);
  EXPECT_EQ(ieee_code<F>(power, below), 0x01) << exponent;
  if (fast_quotient_is_valid(below)) {
    EXPECT_EQ((fast_code<Shortcut, F>(power, below)), 0x01)
        << "s = 2^" << exponent << " * (1 - 2^-24)";
  }
}

TYPED_TEST(FastQuotient, HardestTiesOfEachBinade) {
  for (int exponent = -109; exponent <= 125; ++exponent) {
    check_hardest_ties<TypeParam, E5m2>(exponent, -17);
    check_hardest_ties<TypeParam, E4m3>(exponent, -10);
  }
}

// The check can fail: x * (1/s) alone crosses decision points.
TEST(FastQuotientControl, ProductAloneCrossesDecisionPoints) {
  const Mismatches found = check_decision_points<ProductAlone>(
      {.scale_exponent = 0, .point_exponent = -10, .stride = 1009});
  EXPECT_GT(found.count, 1000U);
}

TYPED_TEST(FastQuotient, PairsOf16BitInputsUnderBothDefaultFloors) {
  for (const bool fp16 : {false, true}) {
    for (const FloorKind floor : {FloorKind::amax, FloorKind::scale}) {
      const PairSweep sweep{
          .fp16 = fp16, .floor = floor, .amax_stride = 61 * test::kSlower, .x_stride = 13};
      const Mismatches e4m3 = check_pairs<TypeParam, E4m3>(sweep);
      EXPECT_GT(e4m3.checked, 500'000U / test::kSlower);
      EXPECT_EQ(e4m3.count, 0U) << "e4m3: " << e4m3;
      const Mismatches e5m2 = check_pairs<TypeParam, E5m2>(sweep);
      EXPECT_EQ(e5m2.count, 0U) << "e5m2: " << e5m2;
    }
  }
}

// Given scales and bounds: any x with any valid scale, so quotients overflow and vanish too.
template <class Shortcut, class F>
Mismatches check_scattered() {
  Mismatches found;
  for (uint64_t i = 0; i < 2'000'000 / test::kSlower; ++i) {
    const float s = scattered_scale(i);
    const float x = float_of(scatter(5 * i + 3));
    if (!Shortcut::kTakesAnyInput && !std::isfinite(x)) continue;
    found.check(bits_of(x), fast_code<Shortcut, F>(x, s), encode<F>(x / s), bits_of(s));
  }
  return found;
}

TYPED_TEST(FastQuotient, AnyInputWithAnyValidScale) {
  const Mismatches e4m3 = check_scattered<TypeParam, E4m3>();
  EXPECT_EQ(e4m3.count, 0U) << e4m3;
  const Mismatches e5m2 = check_scattered<TypeParam, E5m2>();
  EXPECT_EQ(e5m2.count, 0U) << e5m2;
}

std::vector<float> special_inputs() {
  std::vector<float> inputs;
  for (const float x :
       {0.0F, 0x1p-149F, 0x1p-127F, 0x1.fffffcp-127F, 0x1p-126F, 0x1p-113F, 0x1p-106F, 1e-10F, 0.1F,
        1.0F, 448.0F, 57344.0F, 65504.0F, 0x1p126F, 0x1p127F, 0x1.fffffep127F, kInfinity}) {
    inputs.push_back(x);
    inputs.push_back(-x);
  }
  inputs.push_back(kNan);
  return inputs;
}

TYPED_TEST(FastQuotient, SpecialInputsWithScalesAtTheBorders) {
  Mismatches found;
  for (const float s :
       {0x1p-96F, 0x1p-85F, 0x1.fffffep-85F, 0x1p-80F, 0x1.555556p-79F, 0x1.8p-60F, 0x1.8p-30F,
        1.0F, 0x1.924924p-3F, 0x1p96F, step_away(0x1p126F, -1), 0x1p126F}) {
    if (!fast_quotient_is_valid(s)) continue;  // ValidityRange says where that may be
    for (const float x : special_inputs()) {
      if (!TypeParam::kTakesAnyInput && !std::isfinite(x)) continue;
      found.check(bits_of(x), fast_code<TypeParam, E4m3>(x, s), ieee_code<E4m3>(x, s), bits_of(s));
      found.check(bits_of(x), fast_code<TypeParam, E5m2>(x, s), ieee_code<E5m2>(x, s), bits_of(s));
    }
  }
  EXPECT_GT(found.checked, 200U);
  EXPECT_EQ(found.count, 0U) << found;
}

// Where the lower end lies is a matter of proof (HardestTiesOfEachBinade); that it lies below every
// scale that a default floor leaves is a matter of speed: 1e-10 / 57344 is above 2^-50.
TEST(FastQuotientRange, ValidityRange) {
  for (const float s : {0x1p-80F, 0x1p-50F, 1.0F, 0x1p80F}) {
    EXPECT_TRUE(fast_quotient_is_valid(s)) << s;
  }
  for (const float s : {step_away(0x1p-96F, -1), step_away(0x1p126F, 1), 0.0F, -0.0F, 0x1p-149F,
                        0x1p127F, kInfinity, kNan, -1.0F, -0x1p-80F, -kInfinity}) {
    EXPECT_FALSE(fast_quotient_is_valid(s)) << s;
  }
}

// Outside the range the shortcuts are wrong, so the predicate is needed.
TYPED_TEST(FastQuotient, ControlWrongOutsideTheRange) {
  EXPECT_EQ(encode<E4m3>(1.0F / kInfinity), 0x00);
  EXPECT_NE((fast_code<TypeParam, E4m3>(1.0F, kInfinity)), 0x00);
  EXPECT_EQ(encode<E4m3>(0x1p-130F / 0x1p-130F), 0x38);
  EXPECT_NE((fast_code<TypeParam, E4m3>(0x1p-130F, 0x1p-130F)), 0x38);
}

// Scales that take the division: what IEEE gives for each, as codes.
TEST(Quotient, DegenerateScales) {
  const auto code = [](float x, float s) {
    return encode<E4m3>(quotient(x, s, Quotient::divide), NanRule::propagate);
  };
  EXPECT_EQ(code(0.0F, 0.0F), 0x7F);
  EXPECT_EQ(code(1.0F, 0.0F), 0x7E);
  EXPECT_EQ(code(-1.0F, 0.0F), 0xFE);
  EXPECT_EQ(code(1.0F, -0.0F), 0xFE);
  EXPECT_EQ(code(1.0F, -1.0F), 0xB8);
  EXPECT_EQ(code(0.0F, -1.0F), 0x80);
  EXPECT_EQ(code(5.0F, kInfinity), 0x00);
  EXPECT_EQ(code(-5.0F, kInfinity), 0x80);
  EXPECT_EQ(code(kInfinity, kInfinity), 0x7F);
  EXPECT_EQ(code(kInfinity, 1.0F), 0x7E);
  EXPECT_EQ(code(kNan, 1.0F), 0x7F);
  EXPECT_EQ(code(0x1p-149F, 0x1p-149F), 0x38);
}

TEST(CorrectedQuotient, SignOfZero) {
  for (const float s : {0x1p-80F, 0.3F, 1.0F, 0x1p96F}) {
    const FastDivisor d = make_fast_divisor(s);
    EXPECT_EQ(bits_of(fast_quotient(0.0F, d)), 0U);
    EXPECT_EQ(bits_of(fast_quotient(-0.0F, d)), 0x80000000U);
  }
  // A quotient that underflows keeps its sign too.
  EXPECT_EQ((fast_code<Corrected, E4m3>(-0x1p-149F, 0x1p96F)), 0x80);
  EXPECT_EQ((fast_code<Corrected, E4m3>(0x1p-149F, 0x1p96F)), 0x00);
}

// The residue with the other signs is +0 for x = -0 and turns the quotient into +0.
TEST(CorrectedQuotient, ControlOtherSignsLoseMinusZero) {
  const FastDivisor d = make_fast_divisor(0.3F);
  const float x = -0.0F;
  const float q0 = mul(x, d.r);
  EXPECT_EQ(bits_of(fma(fma(-q0, d.s, x), d.r, q0)), 0U);
}

TEST(CorrectedQuotient, IsOddInX) {
  Mismatches found;
  for (uint64_t i = 0; i < 300'000 / test::kSlower; ++i) {
    const FastDivisor d = make_fast_divisor(scattered_scale(i));
    const float x = float_of(scatter(7 * i) & 0x7FFFFFFFU);
    if (std::isnan(x)) continue;
    found.check(bits_of(x), bits_of(fast_quotient(-x, d)),
                bits_of(fast_quotient(x, d)) ^ 0x80000000U, bits_of(d.s));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

}  // namespace
}  // namespace rowscale::numerics
