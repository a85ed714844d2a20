// Correctly rounded fp32 operations by other means than the fp32 hardware: every step but the last
// is exact, and the last is one conversion from double, which rounds to nearest even, subnormals
// too. They are what src/numerics is compared with, so they include nothing of it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rowscale::test {

inline uint32_t bits_of(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline float float_of(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

inline bool both_nan_or_same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || bits_of(a) == bits_of(b);
}

// The float `steps` places further from zero (towards it when negative); it stops at zero and at
// infinity and keeps the sign.
inline float step_away(float x, int steps) {
  const uint32_t sign = bits_of(x) & 0x80000000U;
  int64_t magnitude = static_cast<int64_t>(bits_of(x) & 0x7FFFFFFFU) + steps;
  if (magnitude < 0) magnitude = 0;
  if (magnitude > 0x7F800000) magnitude = 0x7F800000;
  return float_of(sign | static_cast<uint32_t>(magnitude));
}

// a + b in double, rounded to odd: where the sum is inexact, the neighbour with the odd last bit.
// Rounded again to 51 bits or fewer, it gives what the exact sum gives (Boldo and Melquiond).
inline double add_round_to_odd(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);  // exact (Knuth)
  if (error == 0.0 || !std::isfinite(sum)) return sum;
  const auto bits = std::bit_cast<uint64_t>(sum);
  if ((bits & 1U) != 0) return sum;
  // The exact value lies beside `sum`; its odd neighbour on that side.
  const bool away_from_zero = (error > 0.0) == (sum > 0.0);
  return std::bit_cast<double>(away_from_zero ? bits + 1 : bits - 1);
}

// a * b + c, rounded once. The product of two floats is exact in double.
inline float fma_exactly(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  return static_cast<float>(add_round_to_odd(product, static_cast<double>(c)));
}

inline float add_exactly(float a, float b) {
  return static_cast<float>(add_round_to_odd(static_cast<double>(a), static_cast<double>(b)));
}

inline float mul_exactly(float a, float b) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}

// x / s by long division of the integer significands; a remainder becomes the odd last bit.
inline float div_exactly(float x, float s) {
  const bool negative = std::signbit(x) != std::signbit(s);
  const float sign = negative ? -1.0F : 1.0F;
  if (std::isnan(x) || std::isnan(s) || (x == 0.0F && s == 0.0F) ||
      (std::isinf(x) && std::isinf(s))) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  if (std::isinf(x) || s == 0.0F)
    return std::copysign(std::numeric_limits<float>::infinity(), sign);
  if (std::isinf(s) || x == 0.0F) return std::copysign(0.0F, sign);
  int x_exponent = 0;
  int s_exponent = 0;
  const auto numerator = static_cast<uint64_t>(
      std::ldexp(std::frexp(std::fabs(static_cast<double>(x)), &x_exponent), 24));
  const auto denominator = static_cast<uint64_t>(
      std::ldexp(std::frexp(std::fabs(static_cast<double>(s)), &s_exponent), 24));
  uint64_t digits = (numerator << 39) / denominator;  // 39 or 40 bits: exact in double
  if ((numerator << 39) % denominator != 0) digits |= 1U;
  const double magnitude = std::ldexp(static_cast<double>(digits), x_exponent - s_exponent - 39);
  return static_cast<float>(negative ? -magnitude : magnitude);
}

// The root of a float, taken in double and rounded again, is the correctly rounded one: 53 bits are
// at least 2 * 24 + 2 (Figueroa).
inline float sqrt_exactly(float x) {
  return static_cast<float>(std::sqrt(static_cast<double>(x)));
}

}  // namespace rowscale::test
