// exp of rowscale: explicit operations, so that every machine gives the same bits. Largest error
// 0.895 ulp where the result is normal. docs/numerics.md section 5.
#pragma once

#include "numerics/fp.hpp"

namespace rowscale::numerics {

ROWSCALE_HD float exp(float x) {
  if (is_nan(x)) return x;
  x = x > -104.0F ? x : -104.0F;
  x = x < 89.0F ? x : 89.0F;
  constexpr float kLog2E = 0x1.715476p+0F;
  constexpr float kRounder = 0x1.8p23F;  // adding it rounds to an integer, which stays in the low bits
  const float shifted = fma(x, kLog2E, kRounder);
  const float n = sub(shifted, kRounder);
  // ln 2 in two parts: the first has few bits, so n * high is exact.
  float f = fma(n, -0x1.62e4p-1F, x);
  f = fma(n, -0x1.7f7d1cp-20F, f);
  float p = 0x1.a0d2cep-13F;
  p = fma(p, f, 0x1.6e879cp-10F);
  p = fma(p, f, 0x1.11121p-7F);
  p = fma(p, f, 0x1.555382p-5F);
  p = fma(p, f, 0x1.555554p-3F);
  p = fma(p, f, 0.5F);
  p = fma(p, f, 1.0F);
  p = fma(p, f, 1.0F);
  // 2^n in two factors, because 2^128 and 2^-150 are no normal floats.
  const int32_t exponent =
      static_cast<int32_t>(to_bits(shifted)) - static_cast<int32_t>(to_bits(kRounder));
  const int32_t half = exponent >> 1;
  const float first = from_bits(static_cast<uint32_t>(half + 127) << 23);
  const float second = from_bits(static_cast<uint32_t>(exponent - half + 127) << 23);
  return mul(mul(p, first), second);
}

}  // namespace rowscale::numerics
