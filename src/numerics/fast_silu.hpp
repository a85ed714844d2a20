// A shorter way to silu of a bf16 number.
#pragma once

#include "numerics/activation.hpp"
#include "numerics/exp.hpp"
#include "numerics/fp.hpp"

namespace rowscale::numerics {

// Constants of its exp: one product for the reduction, a polynomial on [-ln 2 / 2, ln 2 / 2] with a
// relative error of 2^-23.
struct FastSiluConstants {
  static constexpr float kMinusLn2 = -0x1.62e43p-1F;
  static constexpr float kC5 = 0x1.126f22p-7F;
  static constexpr float kC4 = 0x1.573e2ep-5F;
  static constexpr float kC3 = 0x1.555a98p-3F;
  static constexpr float kC2 = 0x1.fffdc6p-2F;
  static constexpr float kC1 = 0x1.fffff6p-1F;
};

// For every bf16 g a number that rounds to the bf16 that swish(g, 1) rounds to
// (tests/numerics/fast_silu_test.cpp goes through all of them). `reciprocal(d)` is 1 / d, correctly
// rounded, for d from 1 to 2, and may be anything for NaN that is NaN.
template <class Reciprocal>
ROWSCALE_HD float fast_silu(float g, Reciprocal&& reciprocal) {
  using C = ExpConstants;
  using F = FastSiluConstants;
  const float t = abs(g);
  const float shifted = fma(-t, C::kLog2E, C::kRounder);
  const float n = sub(shifted, C::kRounder);
  const float f = fma(n, F::kMinusLn2, -t);
  float p = F::kC5;
  p = fma(p, f, F::kC4);
  p = fma(p, f, F::kC3);
  p = fma(p, f, F::kC2);
  p = fma(p, f, F::kC1);
  p = fma(p, f, 1.0F);
  // Up to the cutoff n is at least -126, and p at least 1 where it is: 2^n is one addition to the
  // exponent. The rounder's own bits are shifted out.
  const float e = t > kSwishCutoff ? 0.0F : from_bits(to_bits(p) + (to_bits(shifted) << 23));
  const float numerator = g < 0.0F ? mul(g, e) : g;
  return mul(numerator, reciprocal(add(1.0F, e)));
}

}  // namespace rowscale::numerics
