// From an amax, or a scale that is given, to what the elements are divided by.
#pragma once

#include "cuda/calls.hpp"
#include "numerics/quotient.hpp"
#include "numerics/scale_rule.hpp"
#include "plan/gpu_plan.hpp"

namespace rowscale::cuda {

// How a scale divides: a choice by the scale alone, never by the elements.
enum class Division {
  fast,          // numerics::fast_quotient_in_range; infinite scales too, as {0, 0}
  fast_clamped,  // numerics::fast_quotient
  reciprocal,    // x * r
  exact,         // an IEEE division, where the fast forms are not valid
};

struct Divisor {
  numerics::FastDivisor fast;
  Division division;
};

__device__ __forceinline__ Divisor make_divisor(float s, const Rule& rule) {
  if (rule.quotient == Quotient::reciprocal)
    return {{s, numerics::div(1.0F, s)}, Division::reciprocal};
  if (numerics::fast_quotient_is_valid(s)) {
    // __frcp_rn is the correctly rounded reciprocal, as div(1, s) is.
    const numerics::FastDivisor fast{s, __frcp_rn(s)};
    return {fast, rule.range == QuotientRange::scaled ? Division::fast : Division::fast_clamped};
  }
  if (s == numerics::infinity()) return {{0.0F, 0.0F}, Division::fast};
  return {{s, 0.0F}, Division::exact};
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
  return numerics::div(x, d.fast.s);
}

// x / s or x * (1 / s) for a scale that has any kind of division, in place: one element after the
// other at the head of the array, so that the code of an IEEE division is there once.
__device__ __forceinline__ void divide_in_turn(float (&x)[plan::kChunk], const Divisor& d) {
#pragma unroll 1
  for (int i = 0; i < plan::kChunk; ++i) {
    const float quotient = divide_one(x[0], d);
#pragma unroll
    for (int j = 0; j + 1 < plan::kChunk; ++j) x[j] = x[j + 1];
    x[plan::kChunk - 1] = quotient;
  }
}

// The same, without a branch an element for the common kind.
__device__ __forceinline__ void divide_scaled(float (&x)[plan::kChunk], const Divisor& d) {
  if (d.division != Division::fast) return divide_in_turn(x, d);
#pragma unroll
  for (float& v : x) v = numerics::fast_quotient_in_range(v, d.fast);
}

// The same for scales that are given: three common kinds.
__device__ __forceinline__ void divide_given(float (&x)[plan::kChunk], const Divisor& d) {
  if (d.division == Division::reciprocal) {
#pragma unroll
    for (float& v : x) v = numerics::mul(v, d.fast.r);
  } else if (d.division == Division::fast_clamped) {
#pragma unroll
    for (float& v : x) v = numerics::fast_quotient(v, d.fast);
  } else {
    divide_scaled(x, d);
  }
}

}  // namespace rowscale::cuda
