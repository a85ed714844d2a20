// What a kernel does first, and where its block stands.
#pragma once

#include <cstdint>

namespace rowscale::cuda {

// The rule of dependent launch: wait before the first access to the caller's memory, and only then
// let the next kernel start. Without the launch attribute both are nothing.
__device__ __forceinline__ void begin_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// A grid of one dimension ends at 2^31 blocks: where positions have 64 bits, blocks count through
// both.
template <class Index>
__device__ __forceinline__ Index block_index() {
  if constexpr (sizeof(Index) == 4) {
    return static_cast<Index>(blockIdx.x);
  } else {
    return blockIdx.x + Index{gridDim.x} * blockIdx.y;
  }
}
template <class Index>
__device__ __forceinline__ Index thread_index() {
  return static_cast<Index>(threadIdx.x);
}

}  // namespace rowscale::cuda
