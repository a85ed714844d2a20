// e4m3 and e5m2: one number to its code and back. docs/numerics.md section 2.
//   e4m3 "fn": sign, 4 exponent bits (bias 7), 3 mantissa bits; largest 448, NaN 0x7F, no infinity
//   e5m2:      sign, 5 exponent bits (bias 15), 2 mantissa bits; largest 57344; infinity is decoded
//              and never made
#pragma once

#include "numerics/fp.hpp"

namespace rowscale::numerics {

struct E4m3 {
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr float kMax = 448.0F;
  static constexpr uint8_t kMaxCode = 0x7E;
};

struct E5m2 {
  static constexpr int kMantissaBits = 2;
  static constexpr int kBias = 15;
  static constexpr float kMax = 57344.0F;
  static constexpr uint8_t kMaxCode = 0x7B;
};

inline constexpr uint8_t kNanCode = 0x7F;  // both formats

// Nearest even, saturating: NaN gives 0x7F, |y| >= MAX (infinity too) the largest finite code of
// its sign, -0 gives 0x80.
template <class F>
ROWSCALE_HD uint8_t encode(float y) {
  constexpr int kShift = 23 - F::kMantissaBits;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - F::kBias) << 23;
  constexpr uint32_t kMinNormal = static_cast<uint32_t>(127 - F::kBias + 1) << 23;
  // 2^23 times the smallest subnormal: added to a subnormal it leaves its code in the low bits.
  constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 1 - F::kBias + kShift) << 23;

  const uint32_t b = to_bits(y);
  const uint32_t sign = (b >> 24) & 0x80U;
  const uint32_t magnitude = b & 0x7FFFFFFFU;
  if (magnitude > kInfinity32) return kNanCode;
  if (from_bits(magnitude) >= F::kMax) return static_cast<uint8_t>(sign | F::kMaxCode);
  if (magnitude < kMinNormal) {
    const float sum = add(from_bits(magnitude), from_bits(kMagic));
    return static_cast<uint8_t>(sign | (to_bits(sum) - kMagic));
  }
  const uint32_t half_less_one = (1U << (kShift - 1)) - 1U;
  const uint32_t rounded = magnitude + half_less_one + ((magnitude >> kShift) & 1U);
  return static_cast<uint8_t>(sign | ((rounded - kRebias) >> kShift));
}

// Exact for all 256 codes; NaN in its canonical form.
template <class F>
ROWSCALE_HD float decode(uint8_t code) {
  constexpr int kShift = 23 - F::kMantissaBits;
  constexpr uint32_t kMinNormalCode = 1U << F::kMantissaBits;
  constexpr uint32_t kSmallest = static_cast<uint32_t>(127 + 1 - F::kBias - F::kMantissaBits) << 23;

  const uint32_t sign = (code & 0x80U) << 24;
  const uint32_t magnitude = code & 0x7FU;
  if (magnitude > F::kMaxCode) {
    // Above the largest finite code lie NaN and, in e5m2 (0x7C), infinity.
    const bool is_infinity = F::kMantissaBits == 2 && magnitude == 0x7CU;
    return is_infinity ? from_bits(sign | kInfinity32) : canonical_nan();
  }
  if (magnitude < kMinNormalCode) {
    const float value = mul(static_cast<float>(magnitude), from_bits(kSmallest));
    return from_bits(sign | to_bits(value));
  }
  return from_bits(sign | ((magnitude << kShift) + (static_cast<uint32_t>(127 - F::kBias) << 23)));
}

}  // namespace rowscale::numerics
