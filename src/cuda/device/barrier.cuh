// Barriers in shared memory that count arrivals and bytes of asynchronous copies (sm_90), those of
// some warps of a block, and that of a cluster.
#pragma once

#include <cstdint>

namespace rowscale::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// A phase ends when every arrival and every expected byte has come; waiters name the phase by its
// parity, the first being 0.
class Barrier {
 public:
  __device__ __forceinline__ void init(uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals));
  }
  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  __device__ __forceinline__ void arrive_and_expect(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
  }
  // One of the arrivals that init() counted, made when this thread's cp.async copies are done.
  __device__ __forceinline__ void arrive_after_copies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address())
                 : "memory");
  }
  __device__ __forceinline__ void wait(uint32_t parity) {
    asm volatile(
        "{\n"
        " .reg .pred done;\n"
        "again:\n"
        " mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        " @!done bra again;\n"
        "}" ::"r"(address()),
        "r"(parity)
        : "memory");
  }
  [[nodiscard]] __device__ __forceinline__ uint32_t address() const {
    return shared_address(&word_);
  }

 private:
  uint64_t word_;
};

// Between init() and the first use by an asynchronous copy; a barrier of the block must follow.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// The same for copies that this thread starts before that barrier of the block.
__device__ __forceinline__ void publish_barriers_to_copies() {
  publish_barriers();
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// `threads` of the block, whole warps, by a number from 1 to 15 that only they use.
__device__ __forceinline__ void team_barrier(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// All threads of the cluster, with their writes to shared memory.
__device__ __forceinline__ void cluster_barrier() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

// Four floats at the same place in another block of the cluster.
__device__ __forceinline__ float4 load_from_rank(const float* shared, int rank) {
  float4 v;
  asm volatile(
      "{\n"
      " .reg .u32 remote;\n"
      " mapa.shared::cluster.u32 remote, %4, %5;\n"
      " ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];\n"
      "}"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "r"(shared_address(shared)), "r"(rank)
      : "memory");
  return v;
}

}  // namespace rowscale::cuda
