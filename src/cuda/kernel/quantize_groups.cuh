// Short units: kLanes neighbours of a warp hold one in registers, kChunks chunks each. No shared
// memory, no barrier.
#pragma once

#include "cuda/kernel/arguments.cuh"

namespace rowscale::cuda {

template <class Source, class Codec, int kLanes, int kChunks>
__global__ void __launch_bounds__(plan::kGroupsThreads)
    quantize_groups(const __grid_constant__ QuantizeArguments<Source> call) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t index = block_index() * (blockDim.x / kLanes) + threadIdx.x / kLanes;
  begin_kernel();
  if (index >= call.units) return;
  const auto unit = call.unit(index);
  if (!call.x.row_exists(unit.row)) return;

  // Load
  typename Source::Chunk chunk[kChunks];
  int64_t column[kChunks];
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    column[k] = unit.begin + (lane + k * kLanes) * plan::kChunk;
    chunk[k] = call.source.load(unit.row, column[k], unit.end - column[k]);
  }

  // Reduce
  typename Source::Amax amax;
#pragma unroll
  for (int k = 0; k < kChunks; ++k) amax.raise(chunk[k]);

  // Scale
  const float s = numerics::make_scale(call.rule.scale, max_of_lanes<kLanes>(amax.value()));
  const Divisor divisor = make_divisor(s, call.rule);
  if (lane == 0) call.store_scale(unit, s);

    // Encode and store
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    call.store_codes(chunk[k], divisor, unit.row, column[k], unit.end - column[k], Codec{});
  }
}

}  // namespace rowscale::cuda
