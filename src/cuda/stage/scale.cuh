// From an amax, or a scale that is given, to what the elements are divided by and what is stored.
//
// Three ways to a dynamic scale, from plan::GpuScales: FloatScales and PowerScales, straight code
// for the common calls; GeneralScales for every other. All give the same bits where more than one
// serves.
#pragma once

#include "cuda/calls.hpp"
#include "numerics/quotient.hpp"
#include "numerics/scale_rule.hpp"
#include "plan/gpu_plan.hpp"
#include "plan/scale_rule.hpp"
#include "plan/scale_view.hpp"

namespace rowscale::cuda {

// How a scale divides: a choice by the scale alone, never by the elements.
enum class Division {
  fast,          // numerics::fast_quotient_in_range; infinite scales too, as {0, 0}
  fast_clamped,  // numerics::fast_quotient
  reciprocal,    // x * r
  exact,         // an IEEE division, where the fast forms are not valid
};

struct Divisor {
  float scale;  // as it is stored
  numerics::FastDivisor fast;
  Division division;
};

// 1 / s, correctly rounded where fast_quotient_is_valid(s): the machine's approximation and one
// Newton step, as __frcp_rn has it, without that function's branch for other arguments
// (tests/cuda/codec_test.cu goes through all of them).
__device__ __forceinline__ float reciprocal_of_valid(float s) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));
  return numerics::fma(r, numerics::fma(-r, s, 1.0F), r);
}

// Out of the way of the common code.
inline __device__ __noinline__ float divide_slowly(float x, float y) {
  return numerics::div(x, y);
}

// A scale from an amax: no quotient exceeds MAX.
__device__ __forceinline__ Divisor make_scaled_divisor(float s) {
  const bool is_valid = numerics::fast_quotient_is_valid(s);
  const bool is_fast = is_valid || s == numerics::infinity();
  const float r = reciprocal_of_valid(s);
  return {s,
          {is_valid || !is_fast ? s : 0.0F, is_valid ? r : 0.0F},
          is_fast ? Division::fast : Division::exact};
}

// A scale of any size, and any quotient.
__device__ __forceinline__ Divisor make_any_divisor(float s, Quotient quotient) {
  const bool is_valid = numerics::fast_quotient_is_valid(s);
  const float r = is_valid ? reciprocal_of_valid(s) : 0.0F;
  if (quotient == Quotient::reciprocal) {
    return {s, {s, is_valid ? r : divide_slowly(1.0F, s)}, Division::reciprocal};
  }
  if (is_valid) return {s, {s, r}, Division::fast_clamped};
  if (s == numerics::infinity()) return {s, {0.0F, 0.0F}, Division::fast};
  return {s, {s, 0.0F}, Division::exact};
}

__device__ __forceinline__ float divide_one(float x, const Divisor& d) {
  switch (d.division) {
    case Division::fast:
      return numerics::fast_quotient_in_range(x, d.fast);
    case Division::fast_clamped:
      return numerics::fast_quotient(x, d.fast);
    case Division::reciprocal:
      return numerics::mul(x, d.fast.r);
    case Division::exact:
      break;
  }
  return divide_slowly(x, d.fast.s);
}

// In place, for Division::fast.
__device__ __forceinline__ void divide_fast(float (&x)[plan::kChunk],
                                            const numerics::FastDivisor& d) {
#pragma unroll
  for (float& v : x) v = numerics::fast_quotient_in_range(v, d);
}

// In place, for Division::fast_clamped: numerics::fast_quotient, but that the clamp takes two
// instructions, which leave a NaN a NaN.
__device__ __forceinline__ void divide_fast_clamped(float (&x)[plan::kChunk],
                                                    const numerics::FastDivisor& d) {
  constexpr float kFloatMax = 0x1.fffffep127F;
#pragma unroll
  for (float& v : x) {
    float q0 = numerics::mul(v, d.r);
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(q0) : "f"(kFloatMax));
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(q0) : "f"(-kFloatMax));
    v = numerics::correct_quotient(q0, v, d);
  }
}

// In place, for any division: one element after the other at the head of the array, so that the
// code is there once.
__device__ __forceinline__ void divide_in_turn(float (&x)[plan::kChunk], const Divisor& d) {
#pragma unroll 1
  for (int i = 0; i < plan::kChunk; ++i) {
    const float quotient = divide_one(x[0], d);
#pragma unroll
    for (int j = 0; j + 1 < plan::kChunk; ++j) x[j] = x[j + 1];
    x[plan::kChunk - 1] = quotient;
  }
}

// In place, for any division but the exact one, of a scale that is given.
__device__ __forceinline__ void divide_quickly(float (&x)[plan::kChunk], const Divisor& d) {
  if (d.division == Division::reciprocal) {
#pragma unroll
    for (float& v : x) v = numerics::mul(v, d.fast.r);
  } else {
    divide_fast_clamped(x, d.fast);  // also {0, 0}, of an infinite scale
  }
}

// A floor and no bound: numerics::make_scale without a branch. The floor keeps s above the least
// scale of the fast quotient, so that only huge scales need another division.
template <class F>
class FlooredRule {
 public:
  explicit FlooredRule(const Recipe& recipe)
      : least_amax_(recipe.floor.kind == FloorKind::amax ? recipe.floor.value : 0.0F),
        least_scale_(recipe.floor.kind == FloorKind::scale ? recipe.floor.value : 0.0F) {}

 protected:
  [[nodiscard]] __device__ __forceinline__ float scale(float amax) const {
    return fmaxf(numerics::fast_divide_by_max<F>(fmaxf(amax, least_amax_)), least_scale_);
  }
  static __device__ __forceinline__ Divisor divisor_of(float s) {
    const bool is_valid = s <= numerics::kFastQuotientHighest;
    const bool is_infinite = s == numerics::infinity();
    return {s,
            {is_infinite ? 0.0F : s, is_valid ? reciprocal_of_valid(s) : 0.0F},
            is_valid || is_infinite ? Division::fast : Division::exact};
  }

 private:
  float least_amax_;
  float least_scale_;
};

template <class F>
class FloatScales : public FlooredRule<F> {
 public:
  static constexpr plan::GpuScales kScales = plan::GpuScales::floats;
  using FlooredRule<F>::FlooredRule;
  [[nodiscard]] __device__ __forceinline__ Divisor divisor(float amax) const {
    return this->divisor_of(this->scale(amax));
  }
  template <class Index>
  static __device__ __forceinline__ void store(const plan::BasicScaleView<Index>& scales,
                                               Index batch, Index row, Index column, float s) {
    scales.store_float(batch, row, column, s);
  }
};

template <class F>
class PowerScales : public FlooredRule<F> {
 public:
  static constexpr plan::GpuScales kScales = plan::GpuScales::powers;
  using FlooredRule<F>::FlooredRule;
  [[nodiscard]] __device__ __forceinline__ Divisor divisor(float amax) const {
    const uint8_t byte = numerics::ue8m0_round_up(this->scale(amax));
    return this->divisor_of(numerics::ue8m0_quotient_operand(byte));
  }
  // A normal power of two or infinity: the exponent field is the byte.
  template <class Index>
  static __device__ __forceinline__ void store(const plan::BasicScaleView<Index>& scales,
                                               Index batch, Index row, Index column, float s) {
    if (scales.encoding() == ScaleEncoding::ue8m0_f32) {
      scales.store_float(batch, row, column, s);
    } else {
      scales.store_exponent(batch, row, column, static_cast<uint8_t>(numerics::to_bits(s) >> 23));
    }
  }
};

class GeneralScales {
 public:
  static constexpr plan::GpuScales kScales = plan::GpuScales::general;

  explicit GeneralScales(const Recipe& recipe)
      : rule_(plan::scale_rule(recipe)),
        quotient_(recipe.quotient),
        is_scaled_(recipe.bound.kind == BoundKind::none && recipe.quotient == Quotient::divide) {}

  [[nodiscard]] __device__ __forceinline__ Divisor divisor(float amax) const {
    const float s = numerics::make_scale(rule_, amax);
    return is_scaled_ ? make_scaled_divisor(s) : make_any_divisor(s, quotient_);
  }
  [[nodiscard]] __device__ __forceinline__ Divisor divisor_of_given(float s) const {
    return make_any_divisor(s, quotient_);
  }
  template <class Index>
  static __device__ __forceinline__ void store(const plan::BasicScaleView<Index>& scales,
                                               Index batch, Index row, Index column, float s) {
    scales.store(batch, row, column, s);
  }

 private:
  numerics::ScaleRule rule_;
  Quotient quotient_;
  bool is_scaled_;  // a dynamic scale is amax / MAX or more
};

}  // namespace rowscale::cuda
