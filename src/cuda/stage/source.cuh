// Where the elements of a row come from. A source fetches what a chunk is made of, makes the chunk,
// raises an amax by it, and gives its elements in fp32. Asking again for a chunk gives the same.
// docs/adding_a_source.md says how to add one.
#pragma once

#include "cuda/device/words.cuh"
#include "cuda/stage/access.cuh"
#include "cuda/stage/chunk.cuh"
#include "cuda/stage/codec.cuh"
#include "numerics/fp8.hpp"
#include "plan/divider.hpp"
#include "plan/scale_view.hpp"
#include "plan/source.hpp"

namespace rowscale::cuda {

// A tensor as it is. T is float, numerics::Fp16 or numerics::Bf16.
template <class T, class Access>
class Plain {
 public:
  using Rows = Access;
  using Index = typename Access::Index;
  using Chunk = typename Held<T>::Chunk;
  using Amax = typename Held<T>::Amax;
  using Raw = Chunk;
  static constexpr plan::SourceKind kKind = plan::SourceKind::plain;
  static constexpr int kInputBytes = sizeof(T);
  // Of a multiprocessor, beyond which more registers a thread are worth more.
  static constexpr int kMostThreads = 2048;

  Plain(const plan::Source& source, plan::GpuLoads loads) : x_(plan::RowView(source.x), loads) {}

  __device__ __forceinline__ Raw fetch(Index row, Index column, Index count) const {
    return Held<T>::of_memory(x_.template load<T>(row, column, count));
  }
  __device__ __forceinline__ Chunk make(const Raw& raw, Index /*row*/, Index /*column*/,
                                        Index /*count*/) const {
    return raw;
  }
  static __device__ __forceinline__ void values(const Chunk& chunk, float (&v)[plan::kChunk]) {
    Held<T>::values(chunk, v);
  }

 private:
  Access x_;
};

// The scales that belong to the elements of a chunk.
template <class Index>
class ChunkScales {
 public:
  ChunkScales(const Recipe& recipe, const plan::RowView& rows, const void* scales)
      : ChunkScales(recipe, plan::ScaleGrid(recipe, rows.rows_per_batch(), rows.columns()),
                    const_cast<void*>(scales), rows.columns()) {}

  // Whether the chunk that begins at `column` has one scale.
  [[nodiscard]] __device__ __forceinline__ bool is_one(Index column) const {
    return one_a_row_ || (one_a_chunk_ && column % plan::kChunk == 0);
  }
  [[nodiscard]] __device__ __forceinline__ float of(Index row, Index column) const {
    if (one_for_all_) return scales_.load(0, 0, 0);
    const Index batch = rows_in_batch_.divide(row);
    const Index scale_row = unit_rows_.divide(row - batch * rows_in_batch_.divisor());
    return scales_.load(batch, scale_row, unit_columns_.divide(column));
  }

 private:
  ChunkScales(const Recipe& recipe, const plan::ScaleGrid& grid, void* scales, int64_t columns)
      : scales_(recipe, grid, scales),
        rows_in_batch_(static_cast<Index>(grid.data_rows)),
        unit_rows_(static_cast<Index>(grid.unit_rows)),
        unit_columns_(static_cast<Index>(grid.unit_columns)),
        one_for_all_(grid.rows == 1 && grid.columns == 1 && grid.one_for_all),
        one_a_row_(grid.unit_columns >= columns),
        one_a_chunk_(grid.unit_columns % plan::kChunk == 0) {}

  plan::BasicScaleView<Index> scales_;
  plan::Divider<Index> rows_in_batch_;
  plan::Divider<Index> unit_rows_;
  plan::Divider<Index> unit_columns_;
  bool one_for_all_;
  bool one_a_row_;
  bool one_a_chunk_;
};

// Codes of format F times their scales, in fp32.
template <class F, class Access>
class Dequantized {
 public:
  using Rows = Access;
  using Index = typename Access::Index;
  using Chunk = FloatChunk;
  using Amax = FloatAmax;
  using Raw = Chunk;
  static constexpr plan::SourceKind kKind = plan::SourceKind::dequantized;
  static constexpr int kInputBytes = 1;
  static constexpr int kMostThreads = 2048;

  Dequantized(const plan::Source& source, plan::GpuLoads loads)
      : codes_(plan::RowView(source.x), loads),
        scales_(source.recipe, plan::RowView(source.x), source.scales.data) {}

  __device__ __forceinline__ Raw fetch(Index row, Index column, Index count) const {
    Chunk chunk = {};
    if (count <= 0) return chunk;
    Codec<F>::decode(codes_.template load<uint8_t>(row, column, count), chunk.v);
    const float s = scales_.of(row, column);
#pragma unroll
    for (float& v : chunk.v) v = numerics::mul(v, s);
    if (count < plan::kChunk || !scales_.is_one(column)) return load_in_turn(row, column, count);
    return chunk;
  }
  __device__ __forceinline__ Chunk make(const Raw& raw, Index /*row*/, Index /*column*/,
                                        Index /*count*/) const {
    return raw;
  }
  static __device__ __forceinline__ void values(const Chunk& chunk, float (&v)[plan::kChunk]) {
    Held<float>::values(chunk, v);
  }

 private:
  // A chunk that has several scales, or ends early: beyond the end lie no elements, and a 0 times
  // an infinite or a NaN scale must not count.
  __device__ __noinline__ Chunk load_in_turn(Index row, Index column, Index count) const {
    Chunk chunk;
    Codec<F>::decode(codes_.template load<uint8_t>(row, column, count), chunk.v);
#pragma unroll 1
    for (int i = 0; i < plan::kChunk; ++i) {
      const float value = i < count ? numerics::mul(chunk.v[0], scales_.of(row, column + i)) : 0.0F;
#pragma unroll
      for (int j = 0; j + 1 < plan::kChunk; ++j) chunk.v[j] = chunk.v[j + 1];
      chunk.v[plan::kChunk - 1] = value;
    }
    return chunk;
  }

  Access codes_;
  ChunkScales<Index> scales_;
};

}  // namespace rowscale::cuda
