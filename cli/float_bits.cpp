#include "float_bits.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace rowscale::cli {
namespace {

uint32_t f16_bits(float value) {
  const uint32_t sign = std::bit_cast<uint32_t>(value) >> 16 & 0x8000U;
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0F) return sign | 0x7C00U;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);    // magnitude = m * 2^exponent, m in [0.5, 1)
  exponent = std::max(exponent, -13);  // subnormals share the exponent of the least normal
  const float steps = std::nearbyint(std::ldexp(magnitude, 11 - exponent));  // 0 .. 2048
  // A normal has 1024 or more steps: the 1024 itself becomes the one that the exponent lacks.
  return sign | (static_cast<uint32_t>(exponent + 13) * 1024U + static_cast<uint32_t>(steps));
}

float f16_value(uint32_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16;
  const uint32_t magnitude = (bits & 0x7FFFU) << 13;
  if ((bits & 0x7C00U) == 0x7C00U) return std::bit_cast<float>(sign | magnitude | 0x7F800000U);
  // The exponent biases differ by 112; the product is exact, subnormals included.
  const float value = std::bit_cast<float>(magnitude) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

}  // namespace

FloatFormat float_format(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {2, 10, 0x8000U, 0x7C00U};
    case DType::bf16:
      return {2, 7, 0x8000U, 0x7F80U};
    default:
      return {4, 23, 0x80000000U, 0x7F800000U};
  }
}

uint32_t float_bits(DType dtype, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (dtype == DType::f16) return f16_bits(value);
  if (dtype == DType::bf16) return (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
  return bits;
}

float float_value(DType dtype, uint32_t bits) {
  if (dtype == DType::f16) return f16_value(bits);
  return std::bit_cast<float>(dtype == DType::bf16 ? bits << 16 : bits);
}

}  // namespace rowscale::cli
