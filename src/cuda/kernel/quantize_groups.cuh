// Short units: kLanes neighbours of a warp hold one in registers, kChunks chunks each. No shared
// memory, no barrier.
#pragma once

#include "cuda/kernel/arguments.cuh"

namespace rowscale::cuda {

template <class Source, class Scales, class Codec, class Walk, int kLanes, int kChunks>
__global__ void __launch_bounds__(plan::kGroupsThreads,
                                  least_blocks_of_short_way<Source, Scales>(plan::kGroupsThreads,
                                                                            kChunks))
    quantize_groups(const __grid_constant__ QuantizeArguments<Source, Scales, Walk> call) {
  using Arguments = QuantizeArguments<Source, Scales, Walk>;
  using Index = typename Source::Index;
  const auto lane = static_cast<Index>(threadIdx.x % kLanes);
  const auto unit_in_block = static_cast<Index>(threadIdx.x / kLanes);
  const auto units_in_block = static_cast<Index>(blockDim.x / kLanes);
  begin_kernel();
  // A unit that does not exist has no columns; its lanes stay, for the exchange below.
  const Index index = block_index<Index>() * units_in_block + unit_in_block;
  const auto unit = call.unit(index);
  if (Walk::kHasPads && lane == 0 && unit.end == 0) call.store_pad(index, unit.scale_column);
  const auto place = [=](int k) {
    const Index column = unit.begin + (lane + k * kLanes) * plan::kChunk;
    return typename Arguments::Place{unit.row, column, unit.end - column};
  };

  // Load and make
  typename Source::Raw raw[kChunks];
#pragma unroll
  for (int k = 0; k < kChunks; ++k) raw[k] = call.fetch(place(k));
  typename Source::Chunk chunk[kChunks];
#pragma unroll
  for (int k = 0; k < kChunks; ++k) chunk[k] = call.make(raw[k], place(k));

  // Reduce
  typename Source::Amax amax;
#pragma unroll
  for (int k = 0; k < kChunks; ++k) amax.raise(chunk[k]);

  // Scale
  const Divisor divisor = call.rule.divisor(max_of_lanes<kLanes>(amax.value()));

  // Encode and store
  const typename Arguments::ScalePlace scale_place{unit.at.batch, unit.at.row, unit.scale_column,
                                                   lane == 0 && unit.end > 0};
  if (call.template store_unit<Codec>(chunk, divisor, place, scale_place)) {
    call.template finish_unit<Codec, kChunks>(divisor, place, scale_place);
  }
}

}  // namespace rowscale::cuda
