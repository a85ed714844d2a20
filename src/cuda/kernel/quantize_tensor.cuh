// One scale for the whole tensor: a pass that leaves an amax a block in the workspace, and a pass
// that reduces these, which every block does for itself, and encodes. The second pass goes through
// the tensor from its end: what the first one read last is still in the second-level cache.
#pragma once

#include "cuda/kernel/quantize_given.cuh"

namespace rowscale::cuda {

template <class Source>
__global__ void __launch_bounds__(plan::kGivenThreads)
    absmax_tensor(const __grid_constant__ ElementwiseArguments<Source> a, float* partials) {
  __shared__ float scratch[32];
  constexpr int kAhead = 4;  // loads in flight
  const int64_t step = int64_t{gridDim.x} * plan::kGivenThreads;
  begin_kernel();

  typename Source::Amax amax;
  for (int64_t first = int64_t{blockIdx.x} * plan::kGivenThreads + threadIdx.x; first < a.chunks;
       first += kAhead * step) {
    typename Source::Chunk chunk[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const ChunkPlace at = chunk_place(a, first + k * step);
      chunk[k] = a.call.source.load(at.row, at.column, at.count);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) amax.raise(chunk[k]);
  }
  const float most = max_of_block(amax.value(), scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = most;
}

template <class Source, class Codec>
__global__ void __launch_bounds__(plan::kGivenThreads)
    quantize_tensor(const __grid_constant__ ElementwiseArguments<Source> a) {
  __shared__ float scratch[32];
  const int64_t blocks = int64_t{gridDim.x} * gridDim.y;
  const int64_t first =
      (blocks - 1 - block_index()) * (plan::kGivenThreads * plan::kGivenChunks) + threadIdx.x;
  begin_kernel();

  // Load
  ChunkPlace at[plan::kGivenChunks];
  typename Source::Chunk chunk[plan::kGivenChunks];
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    at[k] = chunk_place(a, first + k * plan::kGivenThreads);
    chunk[k] = a.call.source.load(at[k].row, at[k].column, at[k].count);
  }

  // Reduce and scale
  float amax = 0.0F;
  for (int64_t i = threadIdx.x; i < a.partial_count; i += plan::kGivenThreads) {
    amax = fmaxf(amax, a.partials[i]);
  }
  const float s = numerics::make_scale(a.call.rule.scale, max_of_block(amax, scratch));
  const Divisor divisor = make_divisor(s, a.call.rule);
  if (block_index() == 0 && threadIdx.x == 0) a.call.scales.store(0, 0, 0, s);

    // Encode and store
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    a.call.store_codes(chunk[k], divisor, at[k].row, at[k].column, at[k].count, Codec{});
  }
}

}  // namespace rowscale::cuda
