// The few fp32 operations that the numerics are made of, each rounded once to nearest even, the
// same on host and device. Everything in src/numerics is written with these, so no compiler flag
// decides whether a product and a sum are fused.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#if defined(__FAST_MATH__)
#error "rowscale's numerics are defined by IEEE arithmetic: build without -ffast-math"
#endif

#if defined(__CUDACC__)
#define ROWSCALE_HD __host__ __device__ inline
#else
#define ROWSCALE_HD inline
#endif

namespace rowscale::numerics {

inline constexpr uint32_t kCanonicalNan32 = 0x7FFFFFFFU;
inline constexpr uint16_t kCanonicalNan16 = 0x7FFFU;  // bf16 and fp16
inline constexpr uint32_t kInfinity32 = 0x7F800000U;

#if defined(__CUDA_ARCH__)
// Intrinsics, because nvcc may otherwise contract and divide approximately, depending on its flags.
ROWSCALE_HD uint32_t to_bits(float x) {
  return __float_as_uint(x);
}
ROWSCALE_HD float from_bits(uint32_t b) {
  return __uint_as_float(b);
}
ROWSCALE_HD float add(float a, float b) {
  return __fadd_rn(a, b);
}
ROWSCALE_HD float sub(float a, float b) {
  return __fsub_rn(a, b);
}
ROWSCALE_HD float mul(float a, float b) {
  return __fmul_rn(a, b);
}
ROWSCALE_HD float div(float a, float b) {
  return __fdiv_rn(a, b);
}
ROWSCALE_HD float fma(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
ROWSCALE_HD float sqrt(float a) {
  return __fsqrt_rn(a);
}
#else
ROWSCALE_HD uint32_t to_bits(float x) {
  return std::bit_cast<uint32_t>(x);
}
ROWSCALE_HD float from_bits(uint32_t b) {
  return std::bit_cast<float>(b);
}
// The build sets -ffp-contract=off; Arithmetic.ProductAndSumAreNotFused fails without it where the
// compiler may use fma.
ROWSCALE_HD float add(float a, float b) {
  return a + b;
}
ROWSCALE_HD float sub(float a, float b) {
  return a - b;
}
ROWSCALE_HD float mul(float a, float b) {
  return a * b;
}
ROWSCALE_HD float div(float a, float b) {
  return a / b;
}
ROWSCALE_HD float fma(float a, float b, float c) {
  return std::fmaf(a, b, c);
}
ROWSCALE_HD float sqrt(float a) {
  return std::sqrt(a);
}
#endif

// Bit tests, because NaN signs and payloads differ between machines after arithmetic.
ROWSCALE_HD bool is_nan(float x) {
  return (to_bits(x) & 0x7FFFFFFFU) > kInfinity32;
}
ROWSCALE_HD float abs(float x) {
  return from_bits(to_bits(x) & 0x7FFFFFFFU);
}
ROWSCALE_HD float infinity() {
  return from_bits(kInfinity32);
}
ROWSCALE_HD float canonical_nan() {
  return from_bits(kCanonicalNan32);
}

// Of two numbers, neither NaN.
ROWSCALE_HD float max(float a, float b) {
#if defined(__CUDA_ARCH__)
  return fmaxf(a, b);
#else
  return a > b ? a : b;
#endif
}

// What is stored as fp32: NaN in its one form.
ROWSCALE_HD float canonical(float x) {
  return is_nan(x) ? canonical_nan() : x;
}

// max(amax, |x|) where a NaN x changes nothing. amax is never NaN.
ROWSCALE_HD float raise_amax(float amax, float x) {
  const float magnitude = abs(x);
  return magnitude > amax ? magnitude : amax;
}

}  // namespace rowscale::numerics
