// Units of several rows: a block of threads for a tile. kChunks chunks of it stay in each thread's
// registers; with kChunks 0 the tile is of any size and read twice.
#pragma once

#include "cuda/kernel/arguments.cuh"

namespace rowscale::cuda {

// Where a tile lies: rows [row, row + rows) of the data, columns [begin, end).
struct Tile {
  int64_t batch;
  int64_t scale_row;
  int64_t scale_column;
  int64_t row;
  int64_t rows;
  int64_t begin;
  int64_t end;
};

template <class Source>
__device__ __forceinline__ Tile tile_of(const QuantizeArguments<Source>& call, int64_t index) {
  const plan::ScaleGrid& grid = call.grid;
  const int64_t line = call.units_in_row.divide(index);
  const plan::QuotientRemainder at = plan::divide(line, grid.rows);
  Tile tile;
  tile.batch = at.quotient;
  tile.scale_row = at.remainder;
  tile.scale_column = index - line * grid.columns;
  const int64_t first = tile.scale_row * grid.unit_rows;
  const int64_t left = call.x.valid_rows(tile.batch) - first;
  tile.row = tile.batch * grid.data_rows + first;
  tile.rows = left < grid.unit_rows ? left : grid.unit_rows;
  tile.begin = tile.scale_column * grid.unit_columns;
  const int64_t end = tile.begin + grid.unit_columns;
  tile.end = end < call.columns ? end : call.columns;
  return tile;
}

template <class Source, class Codec, int kChunks>
__global__ void __launch_bounds__(plan::kBlocksThreads)
    quantize_blocks(const __grid_constant__ QuantizeArguments<Source> call) {
  __shared__ float scratch[32];
  const int64_t index = block_index();
  begin_kernel();
  if (index >= call.x.batches() * call.grid.rows * call.grid.columns) return;
  const Tile tile = tile_of(call, index);
  if (tile.rows <= 0) return;
  const int64_t chunks_in_row = (tile.end - tile.begin + plan::kChunk - 1) / plan::kChunk;
  const int64_t chunks = tile.rows * chunks_in_row;
  // The chunks of the tile, row after row.
  const auto place = [&](int64_t i, auto&& use) {
    const plan::QuotientRemainder at = plan::divide(i, chunks_in_row);
    const int64_t column = tile.begin + at.remainder * plan::kChunk;
    use(tile.row + at.quotient, column, i < chunks ? tile.end - column : 0);
  };

  const auto scale = [&](float amax) {
    const float s = numerics::make_scale(call.rule.scale, max_of_block(amax, scratch));
    if (threadIdx.x == 0) {
      call.scales.store(tile.batch, tile.scale_row, tile.scale_column, s);
      call.write_pads(tile.batch, tile.scale_row, tile.scale_column);
    }
    return make_divisor(s, call.rule);
  };

  typename Source::Amax amax;
  if constexpr (kChunks > 0) {
    // Load
    typename Source::Chunk chunk[kChunks];
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      place(threadIdx.x + k * int64_t{plan::kBlocksThreads},
            [&](int64_t row, int64_t column, int64_t count) {
              chunk[k] = call.source.load(row, column, count);
            });
    }

    // Reduce and scale
#pragma unroll
    for (int k = 0; k < kChunks; ++k) amax.raise(chunk[k]);
    const Divisor divisor = scale(amax.value());

    // Encode and store
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      place(threadIdx.x + k * int64_t{plan::kBlocksThreads},
            [&](int64_t row, int64_t column, int64_t count) {
              call.store_codes(chunk[k], divisor, row, column, count, Codec{});
            });
    }
  } else {
    for (int64_t i = threadIdx.x; i < chunks; i += plan::kBlocksThreads) {
      place(i, [&](int64_t row, int64_t column, int64_t count) {
        amax.raise(call.source.load(row, column, count));
      });
    }
    const Divisor divisor = scale(amax.value());
    for (int64_t i = threadIdx.x; i < chunks; i += plan::kBlocksThreads) {
      place(i, [&](int64_t row, int64_t column, int64_t count) {
        call.store_codes(call.source.load(row, column, count), divisor, row, column, count,
                         Codec{});
      });
    }
  }
}

}  // namespace rowscale::cuda
