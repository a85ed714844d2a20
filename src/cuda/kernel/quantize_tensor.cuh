// One scale for the whole tensor: a pass that leaves an amax a block in the workspace, and a pass
// that reduces these, which every block does for itself, and encodes. The second pass goes through
// the tensor from its end: what the first one read last is still in the second-level cache.
#pragma once

#include "cuda/kernel/quantize_given.cuh"

namespace rowscale::cuda {

// An amax a block of the first pass.
struct Partials {
  float* amax;
  int32_t count;
};

template <class Source, class Scales>
__global__ void __launch_bounds__(plan::kGivenThreads)
    absmax_tensor(const __grid_constant__ ElementwiseArguments<Source, Scales> a,
                  Partials partials) {
  using Index = typename Source::Index;
  __shared__ float scratch[32];
  constexpr int kAhead = plan::kAbsmaxChunks;  // loads in flight
  const Index step = static_cast<Index>(gridDim.x) * plan::kGivenThreads;
  begin_kernel();

  typename Source::Amax amax;
  for (Index first = block_index<Index>() * plan::kGivenThreads + thread_index<Index>();
       first < a.chunks.count; first += kAhead * step) {
    typename Source::Chunk chunk[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) chunk[k] = a.call.load(a.place(first + k * step));
#pragma unroll
    for (int k = 0; k < kAhead; ++k) amax.raise(chunk[k]);
  }
  const float most = max_of_block(amax.value(), scratch);
  if (threadIdx.x == 0) partials.amax[blockIdx.x] = most;
}

template <class Source, class Scales, class Codec>
__global__ void __launch_bounds__(plan::kGivenThreads)
    quantize_tensor(const __grid_constant__ ElementwiseArguments<Source, Scales> a,
                    Partials partials) {
  using Index = typename Source::Index;
  constexpr Index kStep = plan::kGivenThreads;
  constexpr Index kBlock = kStep * plan::kGivenChunks;
  __shared__ float scratch[32];
  begin_kernel();

  // Reduce and scale
  float amax = 0.0F;
  for (int i = static_cast<int>(threadIdx.x); i < partials.count; i += plan::kGivenThreads) {
    amax = fmaxf(amax, partials.amax[i]);
  }
  const Divisor divisor = a.call.rule.divisor(max_of_block(amax, scratch));
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    Scales::store(a.call.scales, Index{0}, Index{0}, Index{0}, divisor.scale);
  }

  const Index stretches = (a.chunks.count + kBlock - 1) / kBlock;
  for (Index i = static_cast<Index>(blockIdx.x); i < stretches;
       i += static_cast<Index>(gridDim.x)) {
    const Index first = (stretches - 1 - i) * kBlock + thread_index<Index>();
    // Load
    typename ElementwiseArguments<Source, Scales>::Place at[plan::kGivenChunks];
    typename Source::Chunk chunk[plan::kGivenChunks];
#pragma unroll
    for (int k = 0; k < plan::kGivenChunks; ++k) at[k] = a.place(first + k * kStep);
#pragma unroll
    for (int k = 0; k < plan::kGivenChunks; ++k) chunk[k] = a.call.load(at[k]);

      // Encode and store
#pragma unroll
    for (int k = 0; k < plan::kGivenChunks; ++k) {
      float v[plan::kChunk];
      Source::values(chunk[k], v);
      if (divisor.division == Division::fast) {
        divide_fast(v, divisor.fast);
      } else if (divisor.division != Division::exact) {
        divide_quickly(v, divisor);
      } else {
        divide_in_turn(v, divisor);
      }
      a.call.codes.template store<uint8_t>(at[k].row, at[k].column, at[k].count,
                                           Codec::encode(v, a.call.nan_xor));
    }
  }
}

}  // namespace rowscale::cuda
