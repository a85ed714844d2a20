// A shorter way to silu of a bf16 number.
#pragma once

#include "numerics/exp.hpp"
#include "numerics/fp.hpp"

namespace rowscale::numerics {

// exp on [kLowest, kHighest] with one product for the reduction and a polynomial on
// [-ln 2 / 2, ln 2 / 2]; relative error about 2^-23, more at the ends.
struct FastExp {
  static constexpr float kLowest = -87.0F;
  static constexpr float kHighest = 88.0F;
  static constexpr float kMinusLn2 = -0x1.62e43p-1F;
  static constexpr float kC5 = 0x1.126f22p-7F;
  static constexpr float kC4 = 0x1.573e2ep-5F;
  static constexpr float kC3 = 0x1.555a98p-3F;
  static constexpr float kC2 = 0x1.fffdc6p-2F;
  static constexpr float kC1 = 0x1.fffff6p-1F;
};

ROWSCALE_HD float fast_exp(float x) {
  using C = ExpConstants;
  using F = FastExp;
  const float shifted = fma(x, C::kLog2E, C::kRounder);
  const float n = sub(shifted, C::kRounder);
  const float f = fma(n, F::kMinusLn2, x);
  float p = F::kC5;
  p = fma(p, f, F::kC4);
  p = fma(p, f, F::kC3);
  p = fma(p, f, F::kC2);
  p = fma(p, f, F::kC1);
  p = fma(p, f, 1.0F);
  // n is from -126 to 127: 2^n is one addition to the exponent. The rounder's own bits are shifted
  // out.
  return from_bits(to_bits(p) + (to_bits(shifted) << 23));
}

// For every bf16 g a number that rounds to the bf16 that swish(g, 1) rounds to, with fast_exp and a
// correctly rounded reciprocal, zero where that is subnormal (tests/numerics/fast_silu_test.cpp
// goes through all of them). A clamped argument stands for both ends: below -87 the reciprocal is
// zero, above 87 it is 1.
template <class Exp, class Reciprocal>
ROWSCALE_HD float fast_silu(float g, const Exp& exp_of, const Reciprocal& reciprocal) {
  float x = -g;
  x = x < FastExp::kHighest ? x : FastExp::kHighest;
  x = x > FastExp::kLowest ? x : FastExp::kLowest;
  return mul(g, reciprocal(add(1.0F, exp_of(x))));
}

}  // namespace rowscale::numerics
