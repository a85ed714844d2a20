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

// Shared memory of one tree_sum; what it holds is used once.
template <int kThreads, int kChunks>
struct TreeScratch {
  static constexpr bool kIsWide = kThreads > numerics::kTreeLanes;
  static constexpr int kLanes = kIsWide ? numerics::kTreeLanes : kThreads;
  float chunks[kIsWide ? kThreads * kChunks : 1];
  float lanes[kLanes > 32 ? kLanes : 1];
};

// values[0 .. kCount) -> their sum, halves onto halves.
template <int kCount>
__device__ __forceinline__ float fold(float (&values)[kCount]) {
#pragma unroll
  for (int width = kCount / 2; width > 0; width /= 2) {
#pragma unroll
    for (int i = 0; i < width; ++i) values[i] = numerics::add(values[i], values[i + width]);
  }
  return values[0];
}

// Of the 32 lanes of a warp; every one of them gets it, because a sum of two does not depend on
// their order.
__device__ __forceinline__ float fold_warp(float value) {
#pragma unroll
  for (int width = 16; width > 0; width /= 2) {
    value = numerics::add(value, __shfl_xor_sync(0xFFFFFFFFU, value, width));
  }
  return value;
}

// The last steps: of kLanes lanes in shared memory.
template <int kLanes>
__device__ __forceinline__ float fold_block(const float* lanes) {
  float values[kLanes / 32];
#pragma unroll
  for (int i = 0; i < kLanes / 32; ++i) values[i] = lanes[threadIdx.x % 32 + 32 * i];
  return fold_warp(fold(values));
}

// `chunk[k]` is the sum of chunk threadIdx.x + k * kThreads of the row, 0 where there is none. A
// block of kThreads threads; every one of them gets the row's sum.
template <int kThreads, int kChunks>
__device__ __forceinline__ float tree_sum(const float (&chunk)[kChunks],
                                          TreeScratch<kThreads, kChunks>& scratch) {
  constexpr int kTreeLanes = numerics::kTreeLanes;
  float lane = 0.0F;
  if constexpr (kThreads <= kTreeLanes) {
    // A thread has the lanes threadIdx.x + m * kThreads.
    constexpr int kLanes = kTreeLanes / kThreads;
    float lanes[kLanes];
#pragma unroll
    for (int m = 0; m < kLanes; ++m) lanes[m] = m < kChunks ? chunk[m] : 0.0F;
#pragma unroll
    for (int k = kLanes; k < kChunks; ++k) {
      lanes[k % kLanes] = numerics::add(lanes[k % kLanes], chunk[k]);
    }
    lane = fold(lanes);
    if constexpr (kThreads == 32) return fold_warp(lane);
    scratch.lanes[threadIdx.x] = lane;
  } else {
    // A lane has the chunks of several threads.
#pragma unroll
    for (int k = 0; k < kChunks; ++k) scratch.chunks[threadIdx.x + k * kThreads] = chunk[k];
    __syncthreads();
    if (threadIdx.x < kTreeLanes) {
#pragma unroll
      for (int j = 0; j < kThreads * kChunks / kTreeLanes; ++j) {
        lane = numerics::add(lane, scratch.chunks[threadIdx.x + j * kTreeLanes]);
      }
      scratch.lanes[threadIdx.x] = lane;
    }
  }
  __syncthreads();
  return fold_block<TreeScratch<kThreads, kChunks>::kLanes>(scratch.lanes);
}

}  // namespace rowscale::cuda
