// Copies by the copy engine (sm_90), global to shared memory: of tiles by a tensor map, zeros where
// the tile leaves the tensor, and of stretches of memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/device/barrier.cuh"

namespace rowscale::cuda {

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(map)) : "memory");
}

// Data that is read once leaves the L2 first; data that every block reads stays.
enum class Reuse { once, many };

__device__ __forceinline__ uint64_t cache_policy(Reuse reuse) {
  uint64_t policy;
  if (reuse == Reuse::once) {
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  }
  return policy;
}

// The tile that begins at (x, y, z), x innermost. `full` expects its bytes, those outside included.
__device__ __forceinline__ void copy_tile(void* shared, const CUtensorMap* map, Barrier* full,
                                          int x, int y, int z, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(shared)),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(full->address()), "r"(x), "r"(y), "r"(z),
      "l"(policy)
      : "memory");
}

// A stretch of memory: both addresses and the bytes are multiples of 16. `full` expects the bytes.
__device__ __forceinline__ void copy_bytes(void* shared, const void* from, uint32_t bytes,
                                           Barrier* full) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(from), "r"(bytes), "r"(full->address())
      : "memory");
}

// A float, asynchronously; zero where it is not there.
__device__ __forceinline__ void copy_float(float* shared, const float* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)),
               "l"(from), "r"(there ? 4 : 0)
               : "memory");
}

}  // namespace rowscale::cuda
