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
// processor", 1990). Equal to the IEEE quotient for 0, infinity and every amax from 2^-100 up;
// between 0 and 2^-100 still at most 2^-108 (quotient_long_test goes through all floats).
inline constexpr float kFastMaxQuotientLowest = 0x1p-100F;

template <class F>
ROWSCALE_HD float fast_divide_by_max(float amax) {
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

}  // namespace rowscale::numerics
