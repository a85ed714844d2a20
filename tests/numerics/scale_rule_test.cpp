// From amax to scale: literal bits, hand-worked orders, and a model whose division is integer.
#include "numerics/scale_rule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/exact.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::bits_of;
using test::div_exactly;
using test::float_of;
using test::Mismatches;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ScaleRule rule_with_floor(FloorKind kind, float value) {
  ScaleRule rule;
  rule.floor = kind;
  rule.floor_value = value;
  return rule;
}

ScaleRule rule_with_bound(BoundKind kind, float value) {
  ScaleRule rule;
  rule.bound = kind;
  rule.bound_value = value;
  return rule;
}

uint32_t scale_bits(const ScaleRule& rule, float amax) {
  return bits_of(make_scale(rule, amax));
}

TEST(ScaleRule, PlainScaleIsTheRoundedQuotient) {
  for (const float max : {448.0F, 57344.0F}) {
    ScaleRule rule;
    rule.max = max;
    Mismatches found;
    for (uint64_t p = 0; p <= 0x7F800000U; p += 1009ULL * test::kSlower) {
      const float amax = float_of(static_cast<uint32_t>(p));
      found.check(static_cast<uint32_t>(p), scale_bits(rule, amax),
                  bits_of(div_exactly(amax, max)));
    }
    EXPECT_EQ(found.count, 0U) << "MAX " << max << ": " << found;
  }
}

// amax * (1/448) differs for more than half of all significands: the test above would see it.
TEST(ScaleRule, ProductWithTheReciprocalIsAnotherScale) {
  int differ = 0;
  for (uint32_t mantissa = 0; mantissa < 0x800000U; mantissa += 1009) {
    const float amax = float_of(0x3F800000U | mantissa);
    if (bits_of(amax * (1.0F / 448.0F)) != scale_bits(ScaleRule{}, amax)) ++differ;
  }
  EXPECT_GT(differ, 4000);  // of 8314
}

TEST(ScaleRule, LiteralBits) {
  EXPECT_EQ(scale_bits(ScaleRule{}, 448.0F), 0x3F800000U);
  EXPECT_EQ(scale_bits(ScaleRule{}, 1.0F), 0x3B124925U);  // 1/448
  EXPECT_EQ(scale_bits(ScaleRule{}, 0.0F), 0U);
  // 1 / (448 * 512) = 1/7 * 2^-15, the floor of per_tensor and per_token.
  EXPECT_EQ(bits_of(div_exactly(1.0F, 448.0F * 512.0F)), 0x36924925U);
  EXPECT_EQ(scale_bits(rule_with_floor(FloorKind::scale, 1.0F / (448.0F * 512.0F)), 0.0F),
            0x36924925U);
  // 1e-10 / 448, what the amax floor of the groups gives for zeros.
  EXPECT_EQ(bits_of(1e-10F), 0x2EDBE6FFU);
  const float group_floor = make_scale(rule_with_floor(FloorKind::amax, 1e-10F), 0.0F);
  EXPECT_EQ(bits_of(group_floor), bits_of(div_exactly(float_of(0x2EDBE6FFU), 448.0F)));
  EXPECT_NEAR(static_cast<double>(group_floor), 2.2321428e-13, 5e-21);
  // Subnormal scales are not flushed.
  EXPECT_EQ(scale_bits(ScaleRule{}, 1e-37F), bits_of(2.2321423e-40F));
}

TEST(ScaleRule, FloorsActOnlyBelowTheirValue) {
  const ScaleRule on_amax = rule_with_floor(FloorKind::amax, 2.0F);
  EXPECT_EQ(scale_bits(on_amax, 1.0F), bits_of(div_exactly(2.0F, 448.0F)));
  EXPECT_EQ(scale_bits(on_amax, 2.0F), bits_of(div_exactly(2.0F, 448.0F)));
  EXPECT_EQ(scale_bits(on_amax, 3.0F), bits_of(div_exactly(3.0F, 448.0F)));
  const ScaleRule on_scale = rule_with_floor(FloorKind::scale, 2.0F);
  EXPECT_EQ(scale_bits(on_scale, 1.0F), bits_of(2.0F));
  EXPECT_EQ(scale_bits(on_scale, 896.0F), bits_of(2.0F));
  EXPECT_EQ(scale_bits(on_scale, 1344.0F), bits_of(3.0F));
  EXPECT_EQ(scale_bits(rule_with_floor(FloorKind::none, 2.0F), 0.0F), 0U);
}

TEST(ScaleRule, OneIfZero) {
  const ScaleRule rule = rule_with_floor(FloorKind::if_zero, 1.0F);
  EXPECT_EQ(scale_bits(rule, 0.0F), bits_of(1.0F));
  EXPECT_EQ(scale_bits(rule, 448.0F), bits_of(1.0F));
  EXPECT_EQ(scale_bits(rule, 224.0F), bits_of(0.5F));
  // The scale decides, not the amax: 2^-149 / 448 is zero in fp32. 224 * 2^-149 / 448 is the tie
  // between 0 and 2^-149; the next float above it gives 2^-149.
  EXPECT_EQ(scale_bits(rule, 0x1p-149F), bits_of(1.0F));
  EXPECT_EQ(scale_bits(rule, float_of(224)), bits_of(1.0F));
  EXPECT_EQ(scale_bits(rule, float_of(225)), 1U);
}

TEST(ScaleRule, BoundsActOnlyAboveTheirValue) {
  const ScaleRule on_amax = rule_with_bound(BoundKind::amax, 2.0F);
  EXPECT_EQ(scale_bits(on_amax, 1.0F), bits_of(div_exactly(1.0F, 448.0F)));
  EXPECT_EQ(scale_bits(on_amax, 3.0F), bits_of(div_exactly(2.0F, 448.0F)));
  EXPECT_EQ(scale_bits(on_amax, kInfinity), bits_of(div_exactly(2.0F, 448.0F)));
  const ScaleRule on_scale = rule_with_bound(BoundKind::scale, 2.0F);
  EXPECT_EQ(scale_bits(on_scale, 448.0F), bits_of(1.0F));
  EXPECT_EQ(scale_bits(on_scale, 1344.0F), bits_of(2.0F));
  EXPECT_EQ(scale_bits(on_scale, kInfinity), bits_of(2.0F));
  EXPECT_EQ(scale_bits(rule_with_bound(BoundKind::none, 2.0F), 1344.0F), bits_of(3.0F));
}

TEST(ScaleRule, NanBoundIsIgnored) {
  for (const uint32_t nan : {0x7FC00000U, 0x7FFFFFFFU, 0xFFC00000U, 0x7F800001U}) {
    for (const BoundKind kind : {BoundKind::amax, BoundKind::scale}) {
      EXPECT_EQ(scale_bits(rule_with_bound(kind, float_of(nan)), 1344.0F), bits_of(3.0F));
      EXPECT_EQ(scale_bits(rule_with_bound(kind, float_of(nan)), kInfinity), bits_of(kInfinity));
    }
  }
}

TEST(ScaleRule, BoundBelowOrAtZeroLeavesTheFloor) {
  for (const float bound : {0.0F, -0.0F, -1.0F, -kInfinity}) {
    for (const BoundKind kind : {BoundKind::amax, BoundKind::scale}) {
      ScaleRule rule = rule_with_bound(kind, bound);
      EXPECT_EQ(scale_bits(rule, 1344.0F), 0U) << bound;  // +0: no sign comes through
      rule.floor = FloorKind::scale;
      rule.floor_value = 0.25F;
      EXPECT_EQ(scale_bits(rule, 1344.0F), bits_of(0.25F)) << bound;
      rule.floor = FloorKind::if_zero;
      rule.floor_value = 1.0F;
      EXPECT_EQ(scale_bits(rule, 1344.0F), bits_of(1.0F)) << bound;
    }
    ScaleRule rule = rule_with_bound(BoundKind::amax, bound);
    rule.floor = FloorKind::amax;
    rule.floor_value = 896.0F;
    EXPECT_EQ(scale_bits(rule, 1344.0F), bits_of(2.0F)) << bound;
  }
}

// amax bound, amax floor, division, scale bound, scale floor: where a bound lies below a floor on
// the same quantity the floor wins; across the division the later step wins.
TEST(ScaleRule, Order) {
  ScaleRule rule;
  rule.bound = BoundKind::amax;
  rule.bound_value = 448.0F;
  rule.floor = FloorKind::amax;
  rule.floor_value = 1344.0F;
  EXPECT_EQ(scale_bits(rule, 896.0F), bits_of(3.0F));
  rule.bound = BoundKind::scale;
  rule.bound_value = 1.0F;
  EXPECT_EQ(scale_bits(rule, 896.0F), bits_of(1.0F));  // the floor came before the division
  rule.floor = FloorKind::scale;
  rule.floor_value = 3.0F;
  EXPECT_EQ(scale_bits(rule, 896.0F), bits_of(3.0F));
  rule.bound = BoundKind::amax;
  rule.bound_value = 448.0F;
  EXPECT_EQ(scale_bits(rule, 896.0F), bits_of(3.0F));
  rule.floor = FloorKind::if_zero;
  EXPECT_EQ(scale_bits(rule, 896.0F), bits_of(1.0F));
}

TEST(ScaleRule, InfiniteAmax) {
  EXPECT_EQ(scale_bits(ScaleRule{}, kInfinity), bits_of(kInfinity));
  ScaleRule rule;
  for (const ScaleEncoding encoding :
       {ScaleEncoding::ue8m0_f32, ScaleEncoding::ue8m0, ScaleEncoding::ue8m0_packed}) {
    rule.encoding = encoding;
    EXPECT_EQ(scale_bits(rule, kInfinity), bits_of(kInfinity));
    EXPECT_EQ(scale_bits(rule, 0x1p127F), bits_of(0x1p119F));  // 2^127 / 448 rounded up
  }
}

// Rounding up comes last, after floors and bounds, and what the data are divided by is the rounded
// scale.
TEST(ScaleRule, Ue8m0) {
  for (const ScaleEncoding encoding :
       {ScaleEncoding::ue8m0_f32, ScaleEncoding::ue8m0, ScaleEncoding::ue8m0_packed}) {
    ScaleRule rule;
    rule.encoding = encoding;
    const auto expect = [&](float amax, int exponent) {
      EXPECT_EQ(scale_bits(rule, amax), bits_of(std::ldexp(1.0F, exponent))) << amax;
    };
    expect(448.0F, 0);
    expect(449.0F, 1);
    expect(1344.0F, 2);
    expect(0x1.c00004p-12F, -19);
    expect(0.0F, -33);  // the encoding's own floor, 1e-10
    rule.bound = BoundKind::scale;
    rule.bound_value = 2.5F;
    expect(1e6F, 2);  // 4: the bound is rounded up too
    rule.bound_value = kNan;
    expect(1344.0F, 2);
    rule.bound = BoundKind::none;
    rule.floor = FloorKind::scale;
    rule.floor_value = 0.3F;
    expect(0.0F, -1);
    rule.floor = FloorKind::if_zero;
    rule.floor_value = 1.0F;
    expect(0.0F, 0);
  }
}

// All kinds together on many amaxes, against the five steps written as plain conditions.
TEST(ScaleRule, ModelOfTheSteps) {
  const std::vector<float> values = {-1.0F, 0.0F,  1e-10F, 4.359654e-6F, 0.01F,
                                     1.0F,  30.0F, 5e4F,   kInfinity,    kNan};
  Mismatches found;
  for (const FloorKind floor :
       {FloorKind::none, FloorKind::amax, FloorKind::scale, FloorKind::if_zero}) {
    for (const BoundKind bound : {BoundKind::none, BoundKind::amax, BoundKind::scale}) {
      for (const float bound_value : values) {
        for (const float floor_value : {1e-10F, 4.359654e-6F, 1.0F, 30.0F}) {
          ScaleRule rule{57344.0F, floor, floor_value, bound, bound_value, ScaleEncoding::f32};
          for (uint32_t p = 0; p <= 0x7F800000U; p += 0x7F8000U) {
            double amax = static_cast<double>(float_of(p));
            const double limit = std::fmax(static_cast<double>(bound_value), 0.0);
            const bool bounded = !std::isnan(bound_value);
            if (bound == BoundKind::amax && bounded) amax = std::fmin(amax, limit);
            if (floor == FloorKind::amax) amax = std::fmax(amax, static_cast<double>(floor_value));
            double s = static_cast<double>(div_exactly(static_cast<float>(amax), 57344.0F));
            if (bound == BoundKind::scale && bounded) s = std::fmin(s, limit);
            if (floor == FloorKind::scale) s = std::fmax(s, static_cast<double>(floor_value));
            if (floor == FloorKind::if_zero && s == 0.0) s = static_cast<double>(floor_value);
            found.check(p, scale_bits(rule, float_of(p)), bits_of(static_cast<float>(s)));
          }
        }
      }
    }
  }
  EXPECT_GT(found.checked, 100000U);
  EXPECT_EQ(found.count, 0U) << found;
}

// The kernels' quotient by MAX against integer division, and where it need only be small.
template <class F>
Mismatches check_divide_by_max(uint64_t begin, uint64_t end, uint32_t stride) {
  return test::sweep(begin / stride, end / stride, [stride](uint64_t b, uint64_t e, Mismatches& m) {
    for (uint64_t i = b; i < e; ++i) {
      const float amax = float_of(static_cast<uint32_t>(i * stride));
      m.check(bits_of(amax), bits_of(fast_divide_by_max<F>(amax)),
              bits_of(div_exactly(amax, F::kMax)));
    }
  });
}

TEST(FastDivideByMax, IsTheIeeeQuotientFrom2ToTheMinus100) {
  const uint32_t stride = 1009 * test::kSlower;
  const uint64_t lowest = bits_of(kFastMaxQuotientLowest);
  const Mismatches e4m3 = check_divide_by_max<E4m3>(lowest + stride, bits_of(kInfinity), stride);
  EXPECT_GT(e4m3.checked, 100000U);
  EXPECT_EQ(e4m3.count, 0U) << e4m3;
  const Mismatches e5m2 = check_divide_by_max<E5m2>(lowest + stride, bits_of(kInfinity), stride);
  EXPECT_EQ(e5m2.count, 0U) << e5m2;
}

TEST(FastDivideByMax, Edges) {
  EXPECT_EQ(bits_of(fast_divide_by_max<E4m3>(0.0F)), 0U);
  EXPECT_EQ(bits_of(fast_divide_by_max<E5m2>(kInfinity)), bits_of(kInfinity));
  EXPECT_EQ(bits_of(fast_divide_by_max<E4m3>(1.0F)), 0x3B124925U);  // 1 / 448
  EXPECT_EQ(bits_of(fast_divide_by_max<E4m3>(448.0F)), bits_of(1.0F));
  EXPECT_EQ(bits_of(fast_divide_by_max<E4m3>(0x1p-100F)),
            bits_of(div_exactly(0x1p-100F, E4m3::kMax)));
  // Below, a floor decides: small and no NaN is enough.
  for (uint32_t p = 1; p < bits_of(kFastMaxQuotientLowest); p += 65537) {
    ASSERT_LE(fast_divide_by_max<E4m3>(float_of(p)), 0x1p-108F) << p;
    ASSERT_GE(fast_divide_by_max<E5m2>(float_of(p)), 0.0F) << p;
  }
}

TEST(RaiseAmax, NanNeverRaisesIt) {
  EXPECT_EQ(bits_of(raise_amax(2.0F, kNan)), bits_of(2.0F));
  EXPECT_EQ(bits_of(raise_amax(2.0F, float_of(0xFFFFFFFFU))), bits_of(2.0F));
  EXPECT_EQ(bits_of(raise_amax(0.0F, -3.0F)), bits_of(3.0F));
  EXPECT_EQ(bits_of(raise_amax(0.0F, -0.0F)), 0U);
  EXPECT_EQ(bits_of(raise_amax(2.0F, -kInfinity)), bits_of(kInfinity));
  EXPECT_EQ(bits_of(raise_amax(0.0F, -0x1p-149F)), 1U);
}

}  // namespace
}  // namespace rowscale::numerics
