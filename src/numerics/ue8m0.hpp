// UE8M0: one unsigned exponent byte, value 2^(byte - 127), 255 is NaN. docs/numerics.md section 3.
#pragma once

#include "numerics/fp.hpp"

namespace rowscale::numerics {

inline constexpr uint8_t kUe8m0Nan = 255;
// The smallest scale that is rounded up; the floor that all users of the encoding share.
inline constexpr uint32_t kUe8m0FloorBits = 0x2EDBE6FFU;  // 1e-10

// The smallest power of two that is not below max(s, 1e-10); s is no NaN. By exponent bits and
// never through log2, which is wrong near powers of two. An infinite s gives 255.
ROWSCALE_HD uint8_t ue8m0_round_up(float s) {
  const float floor = from_bits(kUe8m0FloorBits);
  const uint32_t b = to_bits(s > floor ? s : floor);
  return static_cast<uint8_t>((b >> 23) + ((b & 0x7FFFFFU) != 0 ? 1U : 0U));
}

// 255 gives the canonical NaN, 0 the subnormal 2^-127.
ROWSCALE_HD float ue8m0_decode(uint8_t byte) {
  if (byte == kUe8m0Nan) return canonical_nan();
  return from_bits(byte == 0 ? 0x00400000U : static_cast<uint32_t>(byte) << 23);
}

// The scale that a just computed byte stands for: 255 came from an infinite scale.
ROWSCALE_HD float ue8m0_quotient_operand(uint8_t byte) {
  return byte == kUe8m0Nan ? infinity() : ue8m0_decode(byte);
}

// Whether a float is one of the 256 values of the encoding, infinity and NaN counting as 255.
ROWSCALE_HD bool is_ue8m0_value(float s) {
  const uint32_t b = to_bits(s);
  if (is_nan(s)) return true;
  const bool is_power_of_two = (b & 0x7FFFFFU) == 0 && b != 0 && b <= kInfinity32;
  return is_power_of_two || b == 0x00400000U;
}

// The byte of a float for which is_ue8m0_value holds; 255 for every other, never a rounded value.
ROWSCALE_HD uint8_t ue8m0_of_value(float s) {
  if (is_nan(s) || !is_ue8m0_value(s)) return kUe8m0Nan;
  return static_cast<uint8_t>(to_bits(s) >> 23);
}

}  // namespace rowscale::numerics
