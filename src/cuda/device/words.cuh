// Loads and stores of 8 and 16 bytes, and two 16-bit floats in a register.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "numerics/float16.hpp"
#include "numerics/fp.hpp"
#include "plan/gpu_plan.hpp"

namespace rowscale::cuda {

template <int kBytes>
struct Words {
  uint32_t w[kBytes / 4];
};

// Loads by predicate and not by branch, so that those of a thread are in flight together: `cached`
// and `streaming` are the two kinds of plan::GpuLoads, at most one of them true; neither: zeros.
__device__ __forceinline__ uint4 load16(const std::byte* from, bool cached, bool streaming) {
  uint4 v = make_uint4(0, 0, 0, 0);
  asm volatile(
      "{\n"
      " .reg .pred p, q;\n"
      " setp.ne.u32 p, %5, 0;\n"
      " setp.ne.u32 q, %6, 0;\n"
      " @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      " @q ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}"
      : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
      : "l"(from), "r"(static_cast<uint32_t>(cached)), "r"(static_cast<uint32_t>(streaming))
      : "memory");
  return v;
}
__device__ __forceinline__ uint2 load8(const std::byte* from, bool cached, bool streaming) {
  uint2 v = make_uint2(0, 0);
  asm volatile(
      "{\n"
      " .reg .pred p, q;\n"
      " setp.ne.u32 p, %3, 0;\n"
      " setp.ne.u32 q, %4, 0;\n"
      " @p ld.global.v2.u32 {%0, %1}, [%2];\n"
      " @q ld.global.cs.v2.u32 {%0, %1}, [%2];\n"
      "}"
      : "+r"(v.x), "+r"(v.y)
      : "l"(from), "r"(static_cast<uint32_t>(cached)), "r"(static_cast<uint32_t>(streaming))
      : "memory");
  return v;
}

// Zeros where !exists, and then `from` may be any address.
template <int kBytes>
__device__ __forceinline__ Words<kBytes> load_words(const std::byte* from, bool exists,
                                                    plan::GpuLoads loads) {
  static_assert(kBytes == 8 || kBytes % 16 == 0);
  const bool cached = exists && loads == plan::GpuLoads::cached;
  const bool streaming = exists && loads == plan::GpuLoads::streaming;
  Words<kBytes> words;
  if constexpr (kBytes == 8) {
    const uint2 v = load8(from, cached, streaming);
    words = {{v.x, v.y}};
  } else {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      const uint4 v = load16(from + 16 * i, cached, streaming);
      words.w[4 * i] = v.x;
      words.w[4 * i + 1] = v.y;
      words.w[4 * i + 2] = v.z;
      words.w[4 * i + 3] = v.w;
    }
  }
  return words;
}

template <int kBytes>
__device__ __forceinline__ void store_words(std::byte* to, const Words<kBytes>& words) {
  static_assert(kBytes == 8 || kBytes % 16 == 0);
  if constexpr (kBytes == 8) {
    *reinterpret_cast<uint2*>(to) = make_uint2(words.w[0], words.w[1]);
  } else {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      reinterpret_cast<uint4*>(to)[i] =
          make_uint4(words.w[4 * i], words.w[4 * i + 1], words.w[4 * i + 2], words.w[4 * i + 3]);
    }
  }
}

// Two values of T in a word, the first in the low half. Equal to numerics' conversions for every
// pattern (tests/cuda/codec_test.cu); NaN need not be canonical before it is stored.
template <class T>
struct Pair;

template <>
struct Pair<numerics::Bf16> {
  static __device__ __forceinline__ float low(uint32_t w) { return numerics::from_bits(w << 16); }
  static __device__ __forceinline__ float high(uint32_t w) {
    return numerics::from_bits(w & 0xFFFF0000U);
  }
  // Element by element; a NaN beside a number is left out.
  static __device__ __forceinline__ uint32_t max(uint32_t a, uint32_t b) {
    return bits(__hmax2(value(a), value(b)));
  }
  static __device__ __forceinline__ uint32_t round(float low, float high) {
    return bits(__floats2bfloat162_rn(low, high));
  }
  // Each rounded once.
  static __device__ __forceinline__ uint32_t add(uint32_t a, uint32_t b) {
    return bits(__hadd2_rn(value(a), value(b)));
  }
  static __device__ __forceinline__ uint32_t mul(uint32_t a, uint32_t b) {
    return bits(__hmul2_rn(value(a), value(b)));
  }

 private:
  static __device__ __forceinline__ __nv_bfloat162 value(uint32_t w) {
    return *reinterpret_cast<const __nv_bfloat162*>(&w);
  }
  static __device__ __forceinline__ uint32_t bits(__nv_bfloat162 v) {
    return *reinterpret_cast<const uint32_t*>(&v);
  }
};

template <>
struct Pair<numerics::Fp16> {
  static __device__ __forceinline__ float low(uint32_t w) { return __low2float(value(w)); }
  static __device__ __forceinline__ float high(uint32_t w) { return __high2float(value(w)); }
  static __device__ __forceinline__ uint32_t max(uint32_t a, uint32_t b) {
    return bits(__hmax2(value(a), value(b)));
  }
  static __device__ __forceinline__ uint32_t round(float low, float high) {
    return bits(__floats2half2_rn(low, high));
  }
  static __device__ __forceinline__ uint32_t add(uint32_t a, uint32_t b) {
    return bits(__hadd2_rn(value(a), value(b)));
  }
  static __device__ __forceinline__ uint32_t mul(uint32_t a, uint32_t b) {
    return bits(__hmul2_rn(value(a), value(b)));
  }

 private:
  static __device__ __forceinline__ __half2 value(uint32_t w) {
    return *reinterpret_cast<const __half2*>(&w);
  }
  static __device__ __forceinline__ uint32_t bits(__half2 v) {
    return *reinterpret_cast<const uint32_t*>(&v);
  }
};

}  // namespace rowscale::cuda
