// bf16 and fp16 to fp32 (exact) and back (round to nearest even, subnormals too, NaN as 0x7FFF).
#pragma once

#include "numerics/fp.hpp"

namespace rowscale::numerics {

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

ROWSCALE_HD float to_f32(float x) {
  return x;
}

ROWSCALE_HD float to_f32(Bf16 x) {
  return from_bits(static_cast<uint32_t>(x.bits) << 16);
}

ROWSCALE_HD float to_f32(Fp16 x) {
  const uint32_t sign = (x.bits & 0x8000U) << 16;
  const uint32_t magnitude = x.bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) return from_bits(sign | kInfinity32 | ((magnitude & 0x3FFU) << 13));
  if (magnitude < 0x0400U) {  // subnormal: magnitude * 2^-24, exact
    return from_bits(sign | to_bits(mul(static_cast<float>(magnitude), 0x1p-24F)));
  }
  return from_bits(sign | ((magnitude << 13) + ((127U - 15U) << 23)));
}

// Rounds to the type To.
template <class To>
ROWSCALE_HD To round_to(float x);

template <>
ROWSCALE_HD float round_to<float>(float x) {
  return canonical(x);
}

template <>
ROWSCALE_HD Bf16 round_to<Bf16>(float x) {
  if (is_nan(x)) return {kCanonicalNan16};
  const uint32_t b = to_bits(x);
  // Half an ulp less one, plus the lowest kept bit: ties go to even. A carry into the exponent is
  // the right result, infinity included.
  return {static_cast<uint16_t>((b + 0x7FFFU + ((b >> 16) & 1U)) >> 16)};
}

template <>
ROWSCALE_HD Fp16 round_to<Fp16>(float x) {
  if (is_nan(x)) return {kCanonicalNan16};
  const uint32_t b = to_bits(x);
  const uint32_t sign = (b >> 16) & 0x8000U;
  const uint32_t magnitude = b & 0x7FFFFFFFU;
  // 65520 is the midpoint between the largest fp16 and what would come next.
  if (magnitude >= 0x477FF000U) return {static_cast<uint16_t>(sign | 0x7C00U)};
  if (magnitude < 0x38800000U) {
    // Below 2^-14 the step is 2^-24: in 0.5 + |x| the last bit of the sum has that weight, so the
    // addition itself rounds to nearest even.
    const uint32_t steps = to_bits(add(from_bits(magnitude), 0.5F)) - to_bits(0.5F);
    return {static_cast<uint16_t>(sign | steps)};
  }
  const uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return {static_cast<uint16_t>(sign | ((rounded - ((127U - 15U) << 23)) >> 13))};
}

// r(x): rounded to T and back.
template <class T>
ROWSCALE_HD float round_through(float x) {
  return to_f32(round_to<T>(x));
}

}  // namespace rowscale::numerics
