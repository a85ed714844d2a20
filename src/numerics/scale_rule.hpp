// From an amax to the scale that is stored and the operand that the data are divided by.
// docs/numerics.md section 3.
#pragma once

#include "numerics/fp.hpp"
#include "numerics/fp8.hpp"
#include "numerics/ue8m0.hpp"
#include "rowscale/types.hpp"

namespace rowscale::numerics {

// The standard floors, as constants: computed by the compiler, in no one's rounding mode.
template <class F>
inline constexpr float kSmallestScale = 1.0F / (F::kMax * 512.0F);
static_assert(std::bit_cast<uint32_t>(kSmallestScale<E4m3>) == 0x36924925U);
inline constexpr float kSmallestAmax = 1e-10F;
static_assert(std::bit_cast<uint32_t>(kSmallestAmax) == kUe8m0FloorBits);

// A resolved recipe's rule for dynamic scales; floor is never `standard`.
struct ScaleRule {
  float max = 448.0F;  // MAX of the code's format
  FloorKind floor = FloorKind::none;
  float floor_value = 0.0F;
  BoundKind bound = BoundKind::none;
  float bound_value = 0.0F;
  ScaleEncoding encoding = ScaleEncoding::f32;
};

// amax / MAX, correctly rounded, without the slow path of a division: a quotient corrected by its
// own remainder (Markstein, "Computation of elementary functions on the IBM RISC System/6000
// processor", 1990). In fp32 that holds from 2^-100 up and for 0, below in fp64, whose quotient is
// then rounded once more without harm: an exact fp64 quotient stays exact, any other is further
// from a midpoint than the fp64 error. Equal to the IEEE quotient for every float (scale_rule_test
// goes through all).
inline constexpr float kFastMaxQuotientLowest = 0x1p-100F;

template <class F>
ROWSCALE_HD float divide_by_max(float amax) {
  if (amax < kFastMaxQuotientLowest && amax != 0.0F) {
    constexpr double kMax = F::kMax;
    constexpr double kReciprocal = 1.0 / kMax;
    const double q = mul(double{amax}, kReciprocal);
    return static_cast<float>(fma(fma(-q, kMax, double{amax}), kReciprocal, q));
  }
  constexpr float kReciprocal = 1.0F / F::kMax;
  const float q = mul(amax, kReciprocal);
  const float corrected = fma(fma(-q, F::kMax, amax), kReciprocal, q);
  return amax == infinity() ? amax : corrected;
}

// min(x, bound): a NaN bound is ignored, a negative one counts as 0 so that the floor decides.
ROWSCALE_HD float apply_bound(float x, float bound) {
  if (is_nan(bound)) return x;
  const float limit = bound > 0.0F ? bound : 0.0F;
  return limit < x ? limit : x;
}

// amax >= 0 and no NaN. The result is what a float encoding stores and what the data are divided
// by; for the UE8M0 encodings it is a power of two or infinity, and its exponent field is their
// byte.
ROWSCALE_HD float make_scale(const ScaleRule& rule, float amax) {
  if (rule.bound == BoundKind::amax) amax = apply_bound(amax, rule.bound_value);
  if (rule.floor == FloorKind::amax) amax = amax > rule.floor_value ? amax : rule.floor_value;
  float s = div(amax, rule.max);
  if (rule.bound == BoundKind::scale) s = apply_bound(s, rule.bound_value);
  if (rule.floor == FloorKind::scale) s = s > rule.floor_value ? s : rule.floor_value;
  if (rule.floor == FloorKind::if_zero && s == 0.0F) s = rule.floor_value;
  return rule.encoding == ScaleEncoding::f32 ? s : ue8m0_quotient_operand(ue8m0_round_up(s));
}

// The rule without a bound as numbers, so that a kernel takes no branch: each floor with the value
// that changes nothing where the rule has another. Made by the host.
struct ScaleFloors {
  float least_amax;
  float least_scale;
  float zero_scale;  // what a scale of zero becomes

  ScaleFloors() = default;
  explicit ScaleFloors(const ScaleRule& rule)
      : least_amax(rule.floor == FloorKind::amax ? rule.floor_value : 0.0F),
        least_scale(rule.floor == FloorKind::scale ? rule.floor_value : 0.0F),
        zero_scale(rule.floor == FloorKind::if_zero ? rule.floor_value : 0.0F) {}
};

// The scale before its encoding, in two steps: amax / MAX between them is the caller's. No operand
// is NaN.
ROWSCALE_HD float raise_to_floor(const ScaleFloors& floors, float amax) {
  amax = max(amax, floors.least_amax);
  // Where the floor of the scale decides anyway, a small amax need not be divided.
  const bool floor_decides =
      floors.least_scale >= kFastMaxQuotientLowest && amax < kFastMaxQuotientLowest;
  return floor_decides ? 0.0F : amax;
}
ROWSCALE_HD float scale_above_floor(const ScaleFloors& floors, float s) {
  s = max(s, floors.least_scale);
  return s == 0.0F ? floors.zero_scale : s;
}

}  // namespace rowscale::numerics
