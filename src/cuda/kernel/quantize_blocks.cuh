// Units of several rows: a block of threads for a tile. kChunks chunks of it stay in each thread's
// registers; with kChunks 0 the tile is of any size and read twice.
#pragma once

#include "cuda/kernel/arguments.cuh"

namespace rowscale::cuda {

template <class Source, class Scales>
struct TileArguments {
  using Index = typename Source::Index;

  QuantizeArguments<Source, Scales> call;
  Index tiles;
  Index unit_rows;
  plan::Divider<Index> tile_rows_in_batch;
  plan::Divider<Index> chunks_in_tile_row;

  explicit TileArguments(const QuantizeCall& quantize)
      : call(quantize),
        tiles(
            static_cast<Index>(quantize.x.batches() * quantize.grid.rows * quantize.grid.columns)),
        unit_rows(static_cast<Index>(quantize.grid.unit_rows)),
        tile_rows_in_batch(static_cast<Index>(quantize.grid.rows > 0 ? quantize.grid.rows : 1)),
        chunks_in_tile_row(
            static_cast<Index>((quantize.grid.unit_columns + plan::kChunk - 1) / plan::kChunk)) {}

  // Rows [row, row + rows) of the data, columns [begin, end).
  struct Tile {
    Index batch;
    Index scale_row;
    Index scale_column;
    Index row;
    Index rows;
    Index begin;
    Index end;
  };
  [[nodiscard]] __device__ __forceinline__ Tile tile(Index index) const {
    const Index line = call.units_in_row.divide(index);
    Tile tile;
    tile.scale_column = index - line * call.units_in_row.divisor();
    tile.batch = tile_rows_in_batch.divide(line);
    tile.scale_row = line - tile.batch * tile_rows_in_batch.divisor();
    const Index first = tile.scale_row * unit_rows;
    const Index left = call.rows.count(tile.batch) - first;
    tile.row = tile.batch * call.rows.rows_in_batch() + first;
    tile.rows = left < unit_rows ? left : unit_rows;
    tile.begin = tile.scale_column * call.unit_columns;
    const Index columns_left = call.columns - tile.begin;
    tile.end = tile.begin + (columns_left < call.unit_columns ? columns_left : call.unit_columns);
    return tile;
  }

  // The i-th chunk of a tile, row after row.
  using Place = typename QuantizeArguments<Source, Scales>::Place;
  [[nodiscard]] __device__ __forceinline__ Place place(const Tile& tile, Index i) const {
    const Index row = chunks_in_tile_row.divide(i);
    const Index column = tile.begin + (i - row * chunks_in_tile_row.divisor()) * plan::kChunk;
    return {tile.row + row, column, row < tile.rows ? tile.end - column : 0};
  }
};

template <class Source, class Scales, class Codec, int kChunks>
__global__ void __launch_bounds__(plan::kBlocksThreads,
                                  least_blocks_of_short_way<Source, Scales>(plan::kBlocksThreads,
                                                                            kChunks))
    quantize_blocks(const __grid_constant__ TileArguments<Source, Scales> a) {
  using Index = typename Source::Index;
  constexpr Index kStep = plan::kBlocksThreads;
  __shared__ float scratch[32];
  begin_kernel();
  const Index index = block_index<Index>();
  if (index >= a.tiles) return;
  const auto tile = a.tile(index);
  if (tile.rows <= 0) return;
  const Index first = thread_index<Index>();

  const typename QuantizeArguments<Source, Scales>::ScalePlace scale_place{
      tile.batch, tile.scale_row, tile.scale_column, threadIdx.x == 0};

  typename Source::Amax amax;
  if constexpr (kChunks > 0) {
    // Load and make
    typename Source::Raw raw[kChunks];
    const auto place = [=, &a](int k) { return a.place(tile, first + k * kStep); };
#pragma unroll
    for (int k = 0; k < kChunks; ++k) raw[k] = a.call.fetch(place(k));
    typename Source::Chunk chunk[kChunks];
#pragma unroll
    for (int k = 0; k < kChunks; ++k) chunk[k] = a.call.make(raw[k], place(k));

      // Reduce and scale
#pragma unroll
    for (int k = 0; k < kChunks; ++k) amax.raise(chunk[k]);
    const Divisor divisor = a.call.rule.divisor(max_of_block(amax.value(), scratch));

    // Encode and store
    if (a.call.template store_unit<Codec>(chunk, divisor, place, scale_place)) {
      a.call.template finish_unit<Codec, kChunks>(divisor, place, scale_place);
    }
  } else {
    const Index chunks = tile.rows * a.chunks_in_tile_row.divisor();
    for (Index i = first; i < chunks; i += kStep) amax.raise(a.call.load(a.place(tile, i)));
    const Divisor divisor = a.call.rule.divisor(max_of_block(amax.value(), scratch));
    for (Index i = first; i < chunks; i += kStep) {
      const auto at = a.place(tile, i);
      a.call.template store_chunk<Codec>(a.call.load(at), divisor, at);
    }
    if (scale_place.is_mine) a.call.store_scale(divisor, scale_place);
  }
}

}  // namespace rowscale::cuda
