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

template <class Source, class Codec, int kChunks>
__global__ void __launch_bounds__(most_row_threads(kChunks))
    quantize_rows(const __grid_constant__ QuantizeArguments<Source> call) {
  __shared__ float scratch[32];
  const int64_t index = block_index();
  begin_kernel();
  if (index >= call.units) return;
  const auto unit = call.unit(index);
  const int64_t first = unit.begin + int64_t{threadIdx.x} * plan::kChunk;
  const int64_t step = int64_t{blockDim.x} * plan::kChunk;
  if (!call.x.row_exists(unit.row)) return;

  typename Source::Amax amax;
  if constexpr (kChunks > 0) {
    // Load
    typename Source::Chunk chunk[kChunks];
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      chunk[k] = call.source.load(unit.row, first + k * step, unit.end - (first + k * step));
    }

    // Reduce
#pragma unroll
    for (int k = 0; k < kChunks; ++k) amax.raise(chunk[k]);
    const float most = max_of_block(amax.value(), scratch);

    // Scale
    const float s = numerics::make_scale(call.rule.scale, most);
    const Divisor divisor = make_divisor(s, call.rule);
    if (threadIdx.x == 0) call.store_scale(unit, s);

      // Encode and store
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      call.store_codes(chunk[k], divisor, unit.row, first + k * step, unit.end - (first + k * step),
                       Codec{});
    }
  } else {
    for (int64_t column = first; column < unit.end; column += step) {
      amax.raise(call.source.load(unit.row, column, unit.end - column));
    }
    const float s = numerics::make_scale(call.rule.scale, max_of_block(amax.value(), scratch));
    const Divisor divisor = make_divisor(s, call.rule);
    if (threadIdx.x == 0) call.store_scale(unit, s);
    for (int64_t column = first; column < unit.end; column += step) {
      call.store_codes(call.source.load(unit.row, column, unit.end - column), divisor, unit.row,
                       column, unit.end - column, Codec{});
    }
  }
}

}  // namespace rowscale::cuda
