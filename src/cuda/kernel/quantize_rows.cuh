// Long units: a block of threads for one. kChunks chunks of it stay in each thread's registers;
// with kChunks 0 the unit is of any length and read twice.
#pragma once

#include "cuda/kernel/arguments.cuh"

namespace rowscale::cuda {

constexpr int most_row_threads(int chunks) {
  for (const plan::RowsShape& shape : plan::kRowsShapes) {
    if (shape.chunks == chunks) return shape.most_threads;
  }
  return 0;
}

template <class Source, class Scales, class Codec, int kChunks>
__global__ void __launch_bounds__(
    most_row_threads(kChunks),
    least_blocks_of_short_way<Source, Scales>(most_row_threads(kChunks), kChunks))
    quantize_rows(const __grid_constant__ QuantizeArguments<Source, Scales> call) {
  using Index = typename Source::Index;
  __shared__ float scratch[32];
  begin_kernel();
  const auto unit = call.unit(block_index<Index>());
  const Index first = unit.begin + thread_index<Index>() * plan::kChunk;
  const Index step = static_cast<Index>(blockDim.x) * plan::kChunk;
  if (unit.end == 0) return;

  const auto place = [=](Index k) {
    const Index column = first + k * step;
    return typename QuantizeArguments<Source, Scales>::Place{unit.row, column, unit.end - column};
  };

  const typename QuantizeArguments<Source, Scales>::ScalePlace scale_place{
      unit.at.batch, unit.at.row, unit.scale_column, threadIdx.x == 0};

  typename Source::Amax amax;
  if constexpr (kChunks > 0) {
    // Load and make
    typename Source::Raw raw[kChunks];
#pragma unroll
    for (int k = 0; k < kChunks; ++k) raw[k] = call.fetch(place(k));
    typename Source::Chunk chunk[kChunks];
#pragma unroll
    for (int k = 0; k < kChunks; ++k) chunk[k] = call.make(raw[k], place(k));

      // Reduce and scale
#pragma unroll
    for (int k = 0; k < kChunks; ++k) amax.raise(chunk[k]);
    const Divisor divisor = call.rule.divisor(max_of_block(amax.value(), scratch));

    // Encode and store
    if (call.template store_unit<Codec>(chunk, divisor, place, scale_place)) {
      call.template finish_unit<Codec, kChunks>(divisor, place, scale_place);
    }
  } else {
    const Index chunks = (unit.end - first + step - 1) / step;
    for (Index k = 0; k < chunks; ++k) amax.raise(call.load(place(k)));
    const Divisor divisor = call.rule.divisor(max_of_block(amax.value(), scratch));
    for (Index k = 0; k < chunks; ++k) {
      call.template store_chunk<Codec>(call.load(place(k)), divisor, place(k));
    }
    if (scale_place.is_mine) call.store_scale(divisor, scale_place);
  }
}

}  // namespace rowscale::cuda
