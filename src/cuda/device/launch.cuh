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

// Blocks count through both dimensions of the grid: one alone ends at 2^31.
__device__ __forceinline__ int64_t block_index() {
  return blockIdx.x + int64_t{gridDim.x} * blockIdx.y;
}

}  // namespace rowscale::cuda
