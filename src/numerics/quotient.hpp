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

// `nan` is propagate, clamp_high or clamp_low. Only a NaN needs the rule: encode saturates the rest.
template <class F>
ROWSCALE_HD uint8_t encode(float y, NanRule nan) {
  if (nan != NanRule::propagate && is_nan(y)) {
    return static_cast<uint8_t>(nan == NanRule::clamp_high ? F::kMaxCode : 0x80U | F::kMaxCode);
  }
  return encode<F>(y);
}

// A shortcut for x / s that has the same codes: one reciprocal for all elements, then three fused
// steps without a slow path. Valid for scales in [2^-96, 2^126]; elsewhere divide. Proof:
// tests/numerics/quotient_test.cpp and docs/numerics.md.
struct FastDivisor {
  float s;
  float r;  // 1 / s, correctly rounded
};

ROWSCALE_HD bool fast_quotient_is_valid(float s) { return s >= 0x1p-96F && s <= 0x1p126F; }

ROWSCALE_HD FastDivisor make_fast_divisor(float s) { return {s, div(1.0F, s)}; }

ROWSCALE_HD float fast_quotient(float x, FastDivisor d) {
  constexpr float kFloatMax = 0x1.fffffep127F;
  float q0 = mul(x, d.r);
  // A given scale or a bound can let q0 overflow; infinity would turn the next steps into NaN.
  q0 = q0 > kFloatMax ? kFloatMax : (q0 < -kFloatMax ? -kFloatMax : q0);
  // The signs are placed so that -0 stays -0.
  return fma(fma(q0, d.s, -x), -d.r, q0);
}

}  // namespace rowscale::numerics
