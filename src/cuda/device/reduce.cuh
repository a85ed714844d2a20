// The largest of the amaxes of some threads: a maximum has no order.
#pragma once

#include <cstdint>

#include "numerics/fp.hpp"

namespace rowscale::cuda {

// Of kLanes neighbours; every one of them gets it. All 32 lanes of the warp take part.
template <int kLanes>
__device__ __forceinline__ float max_of_lanes(float amax) {
  static_assert(kLanes >= 1 && kLanes <= 32 && (kLanes & (kLanes - 1)) == 0);
  if constexpr (kLanes == 32) {
    // Floats that are neither negative nor NaN are ordered as their bits are.
    return numerics::from_bits(__reduce_max_sync(0xFFFFFFFFU, numerics::to_bits(amax)));
  } else {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
      amax = fmaxf(amax, __shfl_xor_sync(0xFFFFFFFFU, amax, step));
    }
    return amax;
  }
}

// Of whole warps, at most 32, this thread's being the `warp`-th of them, which meet() waits for;
// every thread gets it. `scratch`, a float a warp, is used once.
template <class Meet>
__device__ __forceinline__ float max_of_warps(float amax, float* scratch, unsigned warp,
                                              unsigned warps, const Meet& meet) {
  amax = max_of_lanes<32>(amax);
  if (warps == 1) return amax;
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) scratch[warp] = amax;
  meet();
  return max_of_lanes<32>(lane < warps ? scratch[lane] : 0.0F);
}

// Of a block of whole warps.
__device__ __forceinline__ float max_of_block(float amax, float (&scratch)[32]) {
  return max_of_warps(amax, scratch, threadIdx.x / 32, blockDim.x / 32, [] { __syncthreads(); });
}

}  // namespace rowscale::cuda
