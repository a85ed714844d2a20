// The arithmetic of one CPU target as a table of functions on contiguous memory of any alignment.
// scalar_kernels() is the reference, written with src/numerics element by element; the SIMD targets
// are a second implementation that the tests hold to the reference bit for bit.
#pragma once

#include <cstdint>

#include "numerics/quotient.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/producers.hpp"
#include "rowscale/types.hpp"

namespace rowscale::cpu {

// How a group's elements are divided by its scale. All but reciprocal give the codes of x / s.
enum class Division : int32_t {
  reciprocal,    // x * r: the recipe's quotient is `reciprocal`
  fast,          // numerics::fast_quotient, where x * r cannot overflow: no clamp is needed
  fast_clamped,  // numerics::fast_quotient
  exact,         // an IEEE division, where the fast form is not valid
};

struct Divisor {
  float s;
  float r;  // 1 / s
  Division division;
};

// For elements of any magnitude.
inline Divisor make_divisor(float s, Quotient quotient) {
  const Division division = quotient == Quotient::reciprocal      ? Division::reciprocal
                            : numerics::fast_quotient_is_valid(s) ? Division::fast_clamped
                                                                  : Division::exact;
  return {s, numerics::div(1.0F, s), division};
}

// For elements of at most `amax` (infinity included).
inline Divisor make_divisor(float s, Quotient quotient, float amax) {
  Divisor divisor = make_divisor(s, quotient);
  const bool overflows = numerics::mul(amax, divisor.r) >= numerics::infinity();
  if (divisor.division == Division::fast_clamped && !overflows) divisor.division = Division::fast;
  return divisor;
}

// Index of a table: f32, f16 and bf16 are 0, 1, 2; e4m3 and e5m2 are 0, 1.
inline constexpr int kFloatTypes = 3;
inline constexpr int kFormats = 2;
inline int index_of(DType dtype) { return static_cast<int>(dtype); }
inline int index_of(Format format) { return static_cast<int>(format); }

enum class Gate : int32_t { silu = 0, gelu_tanh = 1 };

// Elements x[0 .. n) in groups of `group`, the last one perhaps short.
// amax[g] = max(amax[g], |x| over group g), NaN left out.
using AbsmaxFunction = void (*)(const void* x, int64_t n, int64_t group, float* amax);
using EncodeFunction = void (*)(const void* x, int64_t n, int64_t group, const Divisor* divisors,
                                NanRule nan, uint8_t* codes);
using DecodeFunction = void (*)(const uint8_t* codes, int64_t n, int64_t group,
                                const float* scales, void* y);

struct Kernels {
  Target target;

  AbsmaxFunction absmax[kFloatTypes];
  EncodeFunction encode[kFormats][kFloatTypes];
  DecodeFunction decode[kFormats][kFloatTypes];

  // One scale an element: per_column.
  void (*encode_columns[kFormats][kFloatTypes])(const void* x, int64_t n, const float* scales,
                                                Quotient quotient, NanRule nan, uint8_t* codes);

  // Producers. T is the dtype of x, z and y.
  void (*widen[kFloatTypes])(const void* x, int64_t n, float* y);                      // to fp32
  void (*add[kFloatTypes])(const void* x, const void* residual, int64_t n, void* z);  // r(x + res)
  // lanes[(k / 8) mod 256] += the chunks of z[0 .. n); n is a multiple of 8 * 256 unless it ends the
  // row (numerics/rms_norm.hpp).
  void (*sum_squares[kFloatTypes])(const void* z, int64_t n, float* lanes);
  void (*norm[kFloatTypes])(const void* z, int64_t n, float factor, const float* weight,
                            NormForm form, void* y);
  void (*gated[kFloatTypes])(const void* gate, const void* up, int64_t n, Gate gate_function,
                             void* y);
  void (*relu2[kFloatTypes])(const void* x, int64_t n, void* y);
  // x holds n gates and n ups, interleaved.
  void (*swiglu[kFloatTypes])(const void* x, int64_t n, float alpha, float limit, void* y);
};

const Kernels& scalar_kernels();
// Whether this build has the target; the machine may not.
bool has_simd_kernels(Target target);
// Of a target that the build has and the machine runs.
const Kernels& simd_kernels(Target target);

}  // namespace rowscale::cpu
