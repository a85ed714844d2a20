// The quotient of an element and its scale, and the code of the result. docs/numerics.md section 3.
#pragma once

#include "numerics/fp.hpp"
#include "numerics/fp8.hpp"
#include "rowscale/types.hpp"

namespace rowscale::numerics {

// The law. `quotient` is divide or reciprocal.
ROWSCALE_HD float quotient(float x, float s, Quotient quotient) {
  return quotient == Quotient::reciprocal ? mul(x, div(1.0F, s)) : div(x, s);
}

// `nan` is propagate, clamp_high or clamp_low. Only a NaN needs the rule: encode saturates the
// rest.
template <class F>
ROWSCALE_HD uint8_t encode(float y, NanRule nan) {
  if (nan != NanRule::propagate && is_nan(y)) {
    return static_cast<uint8_t>(nan == NanRule::clamp_high ? F::kMaxCode : 0x80U | F::kMaxCode);
  }
  return encode<F>(y);
}

// Shortcuts for x / s that have the same codes and no slow path: one or two divisions for all
// elements, then fused steps. Valid for scales in [2^-80, 2^96]; elsewhere divide. Below 2^-85 the
// remainder q0 * s - x at the lowest midpoint of e5m2 is no longer exact; above 2^96 the low half
// of a reciprocal is not. Proofs: tests/numerics/quotient_test.cpp, docs/numerics.md.
inline constexpr float kFastQuotientLowest = 0x1p-80F;
inline constexpr float kFastQuotientHighest = 0x1p96F;

ROWSCALE_HD bool fast_quotient_is_valid(float s) {
  return s >= kFastQuotientLowest && s <= kFastQuotientHighest;
}

// Larger scales up to kShrunkHighest: shrink scale and elements by this first, which is exact for
// elements whose code is not 0.
inline constexpr float kShrink = 0x1p-64F;
inline constexpr float kShrunkHighest = 0x1p125F;

// Magnitudes below s times this have code 0 in both formats, those above s times the other
// saturate: raised or lowered to it their codes stay, and neither subnormal numbers nor infinities
// arise.
inline constexpr float kLeastQuotient = 0x1p-20F;
inline constexpr float kMostQuotient = 0x1p17F;

// A quotient up to MAX times this still rounds to MAX.
inline constexpr float kMaxSlack = 1.001F;

// For code that keeps the sign in the number (a GPU's conversion instructions do). The quotient
// corrected by its own error: the right sign of zero, three steps.
struct FastDivisor {
  float s;
  float r;  // 1 / s, correctly rounded
};

ROWSCALE_HD FastDivisor make_fast_divisor(float s) {
  return {s, div(1.0F, s)};
}

// The steps after the product q0 = x * r.
ROWSCALE_HD float correct_quotient(float q0, float x, FastDivisor d) {
  // The signs are placed so that -0 stays -0.
  return fma(fma(q0, d.s, -x), -d.r, q0);
}

// For |x| up to MAX * s, which a dynamic scale without a bound makes sure of; with {0, 0} it also
// gives what an infinite scale does: zero for finite elements, NaN for infinite ones.
ROWSCALE_HD float fast_quotient_in_range(float x, FastDivisor d) {
  return correct_quotient(mul(x, d.r), x, d);
}

ROWSCALE_HD float fast_quotient(float x, FastDivisor d) {
  constexpr float kFloatMax = 0x1.fffffep127F;
  float q0 = mul(x, d.r);
  // A given scale or a bound can let q0 overflow; infinity would turn the next steps into NaN.
  q0 = q0 > kFloatMax ? kFloatMax : (q0 < -kFloatMax ? -kFloatMax : q0);
  return correct_quotient(q0, x, d);
}

// What the CPU kernels use. The product with a reciprocal of 48 bits: two steps, for finite
// magnitudes (x >= 0); the sign is the caller's. A quotient may overflow to infinity.
struct Reciprocal {
  float high;  // 1 / s, correctly rounded
  float low;   // 1 / s - high, correctly rounded: the remainder 1 - s * high is exact in fp32
};

ROWSCALE_HD Reciprocal make_reciprocal(float s) {
  const float high = div(1.0F, s);
  return {high, div(fma(-s, high, 1.0F), s)};
}

ROWSCALE_HD float fast_magnitude_quotient(float x, Reciprocal r) {
  // A huge x over a small scale: minus infinity here would beat the infinity that it belongs to.
  const float correction = mul(x, r.low);
  return fma(x, r.high, correction < -0x1.fffffep127F ? -0x1.fffffep127F : correction);
}

}  // namespace rowscale::numerics
