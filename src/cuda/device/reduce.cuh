// The largest of the amaxes of some threads: a maximum has no order.
#pragma once

#include <cstdint>

#include "numerics/fp.hpp"

namespace rowscale::cuda {

// Of kLanes neighbours; every one of them gets it.
template <int kLanes>
__device__ __forceinline__ float max_of_lanes(float amax) {
  static_assert(kLanes >= 1 && kLanes <= 32 && (kLanes & (kLanes - 1)) == 0);
  if constexpr (kLanes == 32) {
    // Floats that are neither negative nor NaN are ordered as their bits are.
    return numerics::from_bits(__reduce_max_sync(0xFFFFFFFFU, numerics::to_bits(amax)));
  } else {
    const unsigned lane = threadIdx.x % 32;
    const unsigned mask = ((1U << kLanes) - 1U) << (lane / kLanes * kLanes);
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
      amax = fmaxf(amax, __shfl_xor_sync(mask, amax, step));
    }
    return amax;
  }
}

// Of a block of whole warps, at most 32; every thread gets it. `scratch` is used once.
__device__ __forceinline__ float max_of_block(float amax, float (&scratch)[32]) {
  amax = max_of_lanes<32>(amax);
  if (blockDim.x == 32) return amax;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = amax;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  return max_of_lanes<32>(lane < blockDim.x / 32 ? scratch[lane] : 0.0F);
}

}  // namespace rowscale::cuda
