// The 8 elements of a chunk while a thread holds them: packed where they have 16 bits, else in
// fp32.
#pragma once

#include <type_traits>

#include "cuda/device/words.cuh"
#include "numerics/float16.hpp"
#include "plan/gpu_plan.hpp"

namespace rowscale::cuda {

// A chunk of fp32 elements.
struct FloatChunk {
  float v[plan::kChunk];
};

// The amax of fp32 elements; NaN does not raise it.
struct FloatAmax {
  float amax = 0.0F;
  __device__ __forceinline__ void raise(const FloatChunk& chunk) {
#pragma unroll
    for (float v : chunk.v) amax = fmaxf(amax, fabsf(v));
  }
  __device__ __forceinline__ float value() const {
    return amax;
  }
};

// The same of 16-bit elements, two at a time and without conversion.
template <class T>
struct PairAmax {
  uint32_t amax = 0;
  __device__ __forceinline__ void raise(const Words<16>& chunk) {
    constexpr uint32_t kMagnitudes = 0x7FFF7FFFU;
    const uint32_t a = Pair<T>::max(chunk.w[0] & kMagnitudes, chunk.w[1] & kMagnitudes);
    const uint32_t b = Pair<T>::max(chunk.w[2] & kMagnitudes, chunk.w[3] & kMagnitudes);
    amax = Pair<T>::max(amax, Pair<T>::max(a, b));
  }
  __device__ __forceinline__ float value() const {
    // Both halves NaN leave one NaN, which fmaxf drops.
    return fmaxf(fmaxf(Pair<T>::low(amax), 0.0F), Pair<T>::high(amax));
  }
};

// How a chunk of T is held, and the ways between that, fp32 values and memory.
template <class T>
struct Held {
  using Chunk = Words<16>;
  using Amax = PairAmax<T>;

  static __device__ __forceinline__ Chunk of_memory(const Words<16>& words) { return words; }
  static __device__ __forceinline__ Words<16> to_memory(const Chunk& chunk) { return chunk; }
  static __device__ __forceinline__ void values(const Chunk& chunk, float (&v)[plan::kChunk]) {
#pragma unroll
    for (int i = 0; i < plan::kChunk / 2; ++i) {
      v[2 * i] = Pair<T>::low(chunk.w[i]);
      v[2 * i + 1] = Pair<T>::high(chunk.w[i]);
    }
  }
  // Each value rounded once; NaN in its canonical form.
  static __device__ __forceinline__ Chunk round(const float (&v)[plan::kChunk]) {
    Chunk chunk;
#pragma unroll
    for (int i = 0; i < plan::kChunk / 2; ++i) {
      chunk.w[i] = Pair<T>::round(v[2 * i], v[2 * i + 1]);
    }
    return chunk;
  }
};

template <>
struct Held<float> {
  using Chunk = FloatChunk;
  using Amax = FloatAmax;

  static __device__ __forceinline__ Chunk of_memory(const Words<32>& words) {
    Chunk chunk;
#pragma unroll
    for (int i = 0; i < plan::kChunk; ++i) chunk.v[i] = numerics::from_bits(words.w[i]);
    return chunk;
  }
  static __device__ __forceinline__ Words<32> to_memory(const Chunk& chunk) {
    Words<32> words;
#pragma unroll
    for (int i = 0; i < plan::kChunk; ++i) words.w[i] = numerics::to_bits(chunk.v[i]);
    return words;
  }
  static __device__ __forceinline__ void values(const Chunk& chunk, float (&v)[plan::kChunk]) {
#pragma unroll
    for (int i = 0; i < plan::kChunk; ++i) v[i] = chunk.v[i];
  }
  static __device__ __forceinline__ Chunk round(const float (&v)[plan::kChunk]) {
    Chunk chunk;
#pragma unroll
    for (int i = 0; i < plan::kChunk; ++i) chunk.v[i] = numerics::canonical(v[i]);
    return chunk;
  }
};

}  // namespace rowscale::cuda
