// exp of rowscale: explicit operations, so that every machine gives the same bits. Largest error
// 0.895 ulp where the result is normal. docs/numerics.md section 5.
#pragma once

#include "numerics/fp.hpp"

namespace rowscale::numerics {

// The constants of exp, for every implementation of it.
struct ExpConstants {
  static constexpr float kLowest = -104.0F;  // below: 0
  static constexpr float kHighest = 89.0F;   // above: infinity
  static constexpr float kLog2E = 0x1.715476p+0F;
  static constexpr float kRounder = 0x1.8p23F;  // adding it rounds to an integer, in the low bits
  // -ln 2 in two parts: the first has few bits, so its product with an integer is exact.
  static constexpr float kMinusLn2High = -0x1.62e4p-1F;
  static constexpr float kMinusLn2Low = -0x1.7f7d1cp-20F;
  // Of the polynomial, from degree 7 down.
  static constexpr float kC7 = 0x1.a0d2cep-13F;
  static constexpr float kC6 = 0x1.6e879cp-10F;
  static constexpr float kC5 = 0x1.11121p-7F;
  static constexpr float kC4 = 0x1.555382p-5F;
  static constexpr float kC3 = 0x1.555554p-3F;
  static constexpr float kC2 = 0.5F;
  static constexpr float kC1 = 1.0F;
  static constexpr float kC0 = 1.0F;
};

ROWSCALE_HD float exp(float x) {
  using C = ExpConstants;
  if (is_nan(x)) return x;
  x = x > C::kLowest ? x : C::kLowest;
  x = x < C::kHighest ? x : C::kHighest;
  const float shifted = fma(x, C::kLog2E, C::kRounder);
  const float n = sub(shifted, C::kRounder);
  float f = fma(n, C::kMinusLn2High, x);
  f = fma(n, C::kMinusLn2Low, f);
  float p = C::kC7;
  p = fma(p, f, C::kC6);
  p = fma(p, f, C::kC5);
  p = fma(p, f, C::kC4);
  p = fma(p, f, C::kC3);
  p = fma(p, f, C::kC2);
  p = fma(p, f, C::kC1);
  p = fma(p, f, C::kC0);
  // 2^n in two factors, because 2^128 and 2^-150 are no normal floats.
  const int32_t exponent =
      static_cast<int32_t>(to_bits(shifted)) - static_cast<int32_t>(to_bits(C::kRounder));
  const int32_t half = exponent >> 1;
  const float first = from_bits(static_cast<uint32_t>(half + 127) << 23);
  const float second = from_bits(static_cast<uint32_t>(exponent - half + 127) << 23);
  return mul(mul(p, first), second);
}

}  // namespace rowscale::numerics
