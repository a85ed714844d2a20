// Bias and out of any of their dtypes.
#pragma once

#include <cstdint>

#include "numerics/float16.hpp"
#include "rowscale/types.hpp"

namespace rowscale::cuda {

// One float of a pointer of any of the three dtypes.
__device__ __forceinline__ float load_any(const void* from, int64_t at, DType dtype) {
  if (dtype == DType::f32) return static_cast<const float*>(from)[at];
  const uint16_t bits = static_cast<const uint16_t*>(from)[at];
  return dtype == DType::bf16 ? numerics::to_f32(numerics::Bf16{bits})
                              : numerics::to_f32(numerics::Fp16{bits});
}
// Two in a word, as numerics::round_to() rounds them.
__device__ __forceinline__ uint32_t round_pair(DType dtype, float low, float high) {
  uint32_t word;
  if (dtype == DType::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
}

// `count` of four elements; together where their address allows it.
__device__ __forceinline__ void store_four(void* to, int64_t at, DType dtype, const float (&v)[4],
                                           int64_t count) {
  if (dtype == DType::f32) {
    float* const p = static_cast<float*>(to) + at;
    if (count >= 4 && reinterpret_cast<uintptr_t>(p) % 16 == 0) {
      *reinterpret_cast<float4*>(p) =
          make_float4(numerics::canonical(v[0]), numerics::canonical(v[1]),
                      numerics::canonical(v[2]), numerics::canonical(v[3]));
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) p[i] = numerics::canonical(v[i]);
    }
    return;
  }
  uint16_t* const p = static_cast<uint16_t*>(to) + at;
  const uint2 words = make_uint2(round_pair(dtype, v[0], v[1]), round_pair(dtype, v[2], v[3]));
  if (count >= 4 && reinterpret_cast<uintptr_t>(p) % 8 == 0) {
    *reinterpret_cast<uint2*>(p) = words;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) p[i] = static_cast<uint16_t>((i < 2 ? words.x : words.y) >> i % 2 * 16);
  }
}

}  // namespace rowscale::cuda
