// The sum of squares of a row in the order that numerics/rms_norm.hpp fixes, by any number of
// threads.
#pragma once

#include "numerics/rms_norm.hpp"
#include "plan/gpu_plan.hpp"

namespace rowscale::cuda {

static_assert(numerics::kTreeChunk == plan::kChunk);

// The sum of a chunk.
__device__ __forceinline__ float sum_of_squares(const float (&z)[plan::kChunk]) {
  float sum = 0.0F;
#pragma unroll
  for (const float v : z) sum = numerics::add_square(sum, v);
  return sum;
}

// By one warp: the sum of a row whose chunks' sums are chunks[0 .. kCount), 0 where there is none.
// Every lane gets it.
template <int kCount>
__device__ __forceinline__ float tree_sum_of_warp(const float* chunks) {
  constexpr int kPerThread = numerics::kTreeLanes / 32;  // lanes of the tree
  float lanes[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    lanes[i] = 0.0F;
#pragma unroll
    for (int j = 32 * i; j < kCount; j += numerics::kTreeLanes) {
      const float sum = chunks[j + static_cast<int>(threadIdx.x % 32)];
      lanes[i] = j == 32 * i ? sum : numerics::add(lanes[i], sum);
    }
  }
  // Lane by lane: 128, 64 and 32 apart, in this thread; 16 and less, in others. A sum of two does
  // not depend on their order, so that all lanes of the warp come to the same.
#pragma unroll
  for (int width = kPerThread / 2; width > 0; width /= 2) {
#pragma unroll
    for (int i = 0; i < width; ++i) lanes[i] = numerics::add(lanes[i], lanes[i + width]);
  }
#pragma unroll
  for (int width = 16; width > 0; width /= 2) {
    lanes[0] = numerics::add(lanes[0], __shfl_xor_sync(0xFFFFFFFFU, lanes[0], width));
  }
  return lanes[0];
}

// Shared memory of a row's factor.
template <int kCount>
struct FactorScratch {
  static_assert(kCount % 32 == 0);
  float chunks[kCount];
  float factor;
};

// What becomes of the row's sum, by its first warp, for all threads of the block, which have stored
// the sums of its chunks in scratch.chunks.
template <int kCount, class FactorOf>
__device__ __forceinline__ float factor_of_block(FactorScratch<kCount>& scratch,
                                                 const FactorOf& factor_of) {
  __syncthreads();
  if (threadIdx.x < 32) {
    const float factor = factor_of(tree_sum_of_warp<kCount>(scratch.chunks));
    if (threadIdx.x == 0) scratch.factor = factor;
  }
  __syncthreads();
  return scratch.factor;
}

}  // namespace rowscale::cuda
