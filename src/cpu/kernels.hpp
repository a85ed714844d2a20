// The arithmetic of one CPU target as a table of functions on contiguous memory of any alignment.
// scalar_kernels() is the reference, written with src/numerics element by element; the SIMD targets
// are a second implementation that the tests hold to the reference bit for bit.
#pragma once

#include <cstdint>

#include "cpu/matmul_tile.hpp"
#include "numerics/quotient.hpp"
#include "numerics/scale_rule.hpp"
#include "plan/cpu_plan.hpp"
#include "plan/source.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/producers.hpp"
#include "rowscale/types.hpp"

namespace rowscale::cpu {

// How a group's elements are divided by its scale. All but the last two take the same time, within
// a few hundredths, whatever the scale and the elements; dynamic scales use no others, but for
// scales below 2^-80, which the floors of all granularities except per_channel prevent.
enum class Division : int32_t {
  fast,  // numerics::fast_magnitude_quotient, where no code saturates: no clamp is needed; an
         // infinite scale too: 0 for finite elements, NaN for infinite ones
  fast_clamped,  // numerics::fast_magnitude_quotient
  fast_scaled,   // as fast, for scales above 2^96: both sides times 2^-64 first
  exact,         // an IEEE division, for scales where the fast form is not valid
  reciprocal,    // x * (1 / s) for such scales, where the recipe's quotient is `reciprocal`
};

inline constexpr int64_t kMaxGroups = plan::kStripScales;

// The scales of up to kMaxGroups groups and how to divide by them.
struct Divisors {
  float s[kMaxGroups];
  float high[kMaxGroups];  // numerics::Reciprocal, of s * 2^-64 for fast_scaled; low is 0 where the
  float low[kMaxGroups];   // quotient is `reciprocal`: the fast forms then give x * (1 / s)
  float least[kMaxGroups];      // s * numerics::kLeastQuotient
  int32_t largest[kMaxGroups];  // pattern of the largest magnitude whose quotient is a number
  Division division[kMaxGroups];
};

// Index of a table: f32, f16 and bf16 are 0, 1, 2; e4m3 and e5m2 are 0, 1.
inline constexpr int kFloatTypes = 3;
inline constexpr int kFormats = 2;
static_assert(static_cast<int>(DType::f32) == 0 && static_cast<int>(DType::f16) == 1 &&
              static_cast<int>(DType::bf16) == 2);
inline int index_of(DType dtype) {
  return static_cast<int>(dtype);
}
inline int index_of(Format format) {
  return static_cast<int>(format);
}

enum class Gate : int32_t { silu = 0, gelu_tanh = 1 };

// Elements x[0 .. n) in groups of `group`, the last one perhaps short.
// amax[g] = max(amax[g], |x| over group g), NaN left out.
using AbsmaxFunction = void (*)(const void* x, int64_t n, int64_t group, float* amax);
// `ahead`: bytes from x to what will be read next, fetched into the cache meanwhile; 0 for nothing.
using EncodeFunction = void (*)(const void* x, int64_t n, int64_t group, const Divisors& divisors,
                                NanRule nan, int64_t ahead, uint8_t* codes);
using DecodeFunction = void (*)(const uint8_t* codes, int64_t n, int64_t group, const float* scales,
                                void* y);

struct Kernels {
  Target target;

  AbsmaxFunction absmax[kFloatTypes];
  // numerics::make_scale of `count` amaxes to divisors->s, and how to divide by them.
  void (*make_scales)(const numerics::ScaleRule& rule, Quotient quotient, const float* amax,
                      int64_t count, Divisors* divisors);
  // How to divide elements of any magnitude by the given divisors->s.
  void (*make_divisors)(Quotient quotient, int64_t count, Divisors* divisors);
  EncodeFunction encode[kFormats][kFloatTypes];
  DecodeFunction decode[kFormats][kFloatTypes];

  // One scale an element: per_column.
  void (*encode_columns[kFormats][kFloatTypes])(const void* x, int64_t n, const float* scales,
                                                Quotient quotient, NanRule nan, uint8_t* codes);

  // numerics::checkpoint_code with a scale a group: the casts of checkpoints.
  void (*checkpoint_codes[kFloatTypes])(const void* x, int64_t n, int64_t group,
                                        const float* scales, uint8_t* codes);

  // Producers. T is the dtype of x, z and y.
  void (*widen[kFloatTypes])(const void* x, int64_t n, float* y);                     // to fp32
  void (*add[kFloatTypes])(const void* x, const void* residual, int64_t n, void* z);  // r(x + res)
  // lanes[(k / 8) mod 256] += the chunks of z[0 .. n); n is a multiple of 8 * 256 unless it ends
  // the row (numerics/rms_norm.hpp).
  void (*sum_squares[kFloatTypes])(const void* z, int64_t n, float* lanes);
  void (*norm[kFloatTypes])(const void* z, int64_t n, float factor, const float* weight,
                            NormForm form, void* y);
  // The same of an fp32 z: T is the dtype that it is rounded through and to.
  void (*norm_of_floats[kFloatTypes])(const void* z, int64_t n, float factor, const float* weight,
                                      NormForm form, void* y);
  void (*gated[kFloatTypes])(const void* gate, const void* up, int64_t n, Gate gate_function,
                             void* y);
  // A form that does not round, to fp32.
  void (*silu_unrounded[kFloatTypes])(const void* gate, const void* up, int64_t n,
                                      plan::SiluForm form, float* y);
  void (*relu2[kFloatTypes])(const void* x, int64_t n, void* y);
  // x holds n gates and n ups, interleaved.
  void (*swiglu[kFloatTypes])(const void* x, int64_t n, float alpha, float limit, void* y);

  // Products.
  DecodeColumnsFunction decode_columns[kFormats];
  AddProductsFunction add_products;
};

const Kernels& scalar_kernels();
// Whether this build has the target; the machine may not.
bool has_simd_kernels(Target target);
// Of a target that the build has and the machine runs.
const Kernels& simd_kernels(Target target);

}  // namespace rowscale::cpu
