// What the quantizing kernels are given, and the steps that all of them share.
#pragma once

#include <type_traits>

#include "cuda/calls.hpp"
#include "cuda/device/launch.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/stage/codec.cuh"
#include "cuda/stage/scale.cuh"
#include "cuda/stage/source.cuh"
#include "plan/divider.hpp"
#include "plan/row_view.hpp"
#include "plan/scale_view.hpp"
#include "plan/unit_walk.hpp"

namespace rowscale::cuda {

// The rows of all batches, and which of them exist.
template <class Index>
class RowSet {
 public:
  explicit RowSet(const plan::RowView& rows)
      : rows_in_batch_(static_cast<Index>(rows.rows_per_batch() > 0 ? rows.rows_per_batch() : 1)),
        counts_(rows.row_counts()) {}

  struct Place {
    Index batch;
    Index row;  // in the batch
  };
  [[nodiscard]] __device__ __forceinline__ Place place(Index row) const {
    const Index batch = rows_in_batch_.divide(row);
    return {batch, row - batch * rows_in_batch_.divisor()};
  }
  [[nodiscard]] __device__ __forceinline__ bool exists(const Place& at) const {
    bool exists = true;
    if (counts_ != nullptr) exists = at.row < counts_[at.batch];
    return exists;
  }
  [[nodiscard]] __device__ __forceinline__ Index rows_in_batch() const {
    return rows_in_batch_.divisor();
  }
  // Rows of the batch that exist.
  [[nodiscard]] __device__ __forceinline__ Index count(Index batch) const {
    const Index rows = rows_in_batch_.divisor();
    if (counts_ == nullptr) return rows;
    const Index counted = counts_[batch] > 0 ? counts_[batch] : 0;
    return counted < rows ? counted : rows;
  }
  [[nodiscard]] __device__ __forceinline__ plan::RowMasks masks() const {
    return counts_ == nullptr ? plan::RowMasks::none : plan::RowMasks::counted;
  }

 private:
  plan::Divider<Index> rows_in_batch_;
  const int32_t* counts_;
};

// One batch without masks.
template <class Index>
class AllRows {
 public:
  explicit AllRows(const plan::RowView& rows) : rows_(static_cast<Index>(rows.rows())) {}

  using Place = typename RowSet<Index>::Place;
  [[nodiscard]] __device__ __forceinline__ Place place(Index row) const { return {0, row}; }
  [[nodiscard]] __device__ __forceinline__ bool exists(const Place& /*at*/) const { return true; }
  [[nodiscard]] __device__ __forceinline__ Index rows_in_batch() const { return rows_; }
  [[nodiscard]] __device__ __forceinline__ Index count(Index /*batch*/) const { return rows_; }
  [[nodiscard]] __device__ __forceinline__ plan::RowMasks masks() const {
    return plan::RowMasks::none;
  }

 private:
  Index rows_;
};

// The chunks of all rows, one row after the other.
template <class Index>
struct AllChunks {
  Index count;
  plan::Divider<Index> in_row;

  explicit AllChunks(const plan::RowView& rows)
      : in_row(static_cast<Index>((rows.columns() + plan::kChunk - 1) / plan::kChunk)) {
    count = static_cast<Index>(rows.rows()) * in_row.divisor();
  }

  struct Place {
    Index row;
    Index column;
    bool is_there;
  };
  // Of a position that may lie behind the last one.
  [[nodiscard]] __device__ __forceinline__ Place place(Index position) const {
    if (position >= count) return {0, 0, false};
    const Index row = in_row.divide(position);
    return {row, (position - row * in_row.divisor()) * plan::kChunk, true};
  }
};

// Blocks that a multiprocessor should have room for: loads in flight hide the memory's delay, and
// registers are what limits them. For chunks of four registers; others are left to the compiler.
template <class Source>
constexpr int least_blocks(int threads, int chunks) {
#if defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
  constexpr int kThreads = 1536;  // of a multiprocessor
#else
  constexpr int kThreads = 2048;
#endif
  const int by_chunks = chunks <= 2 ? kThreads : (chunks <= 4 ? 1280 : 1024);
  const int most_threads = by_chunks < Source::kMostThreads ? by_chunks : Source::kMostThreads;
  return sizeof(typename Source::Chunk) == 16 ? most_threads / threads : 1;
}
template <class Source, class Scales>
constexpr int least_blocks_of_short_way(int threads, int chunks) {
  return Scales::kScales == plan::GpuScales::general ? 1 : least_blocks<Source>(threads, chunks);
}

// A QuantizeCall for a kernel: positions as narrow as the access allows, divisions prepared.
template <class Source, class Scales, class Walk = plan::UnitsBeside<typename Source::Index>>
struct QuantizeArguments {
  using Index = typename Source::Index;
  using Chunk = typename Source::Chunk;
  static constexpr bool kIsGeneral = Scales::kScales == plan::GpuScales::general;

  using Rows = std::conditional_t<kIsGeneral, RowSet<Index>, AllRows<Index>>;

  Source source;
  typename Source::Rows codes;
  Rows rows;
  plan::BasicScaleView<Index> scales;
  Scales rule;
  uint32_t nan_xor;
  Index columns;
  Walk walk;
  Index unit_columns;
  plan::Divider<Index> units_in_row;

  explicit QuantizeArguments(const QuantizeCall& call)
      : source(call.source, call.loads),
        codes(call.codes, call.loads),
        rows(call.x),
        scales(call.recipe, call.grid, call.scales),
        rule(call.recipe),
        nan_xor(nan_difference(call.recipe.format, call.recipe.nan)),
        columns(static_cast<Index>(call.codes.columns())),
        walk(static_cast<Index>(call.x.rows()), static_cast<Index>(call.grid.columns), scales),
        unit_columns(static_cast<Index>(call.grid.unit_columns)),
        units_in_row(static_cast<Index>(call.grid.columns > 0 ? call.grid.columns : 1)) {}

  // Of a chunk; `count` elements exist, none where it is 0 or less.
  struct Place {
    Index row;
    Index column;
    Index count;
  };

  // A group of a row or the whole row: columns [begin, end), none where it does not exist.
  struct Unit {
    Index row;
    typename Rows::Place at;
    Index scale_column;
    Index begin;
    Index end;
  };
  [[nodiscard]] __device__ __forceinline__ Unit unit(Index index) const {
    const plan::UnitPlace<Index> place = walk.place(index, units_in_row);
    Unit unit;
    unit.row = place.row;
    unit.scale_column = place.column;
    unit.at = rows.place(unit.row);
    unit.begin = unit.scale_column * unit_columns;
    const Index left = columns - unit.begin;
    const Index width = left < unit_columns ? left : unit_columns;
    unit.end = rows.exists(unit.at) && place.exists ? unit.begin + width : 0;
    return unit;
  }

  // What a chunk is made of, so that a thread's loads are in flight together; and the chunk.
  [[nodiscard]] __device__ __forceinline__ typename Source::Raw fetch(const Place& at) const {
    return source.fetch(at.row, at.column, at.count);
  }
  [[nodiscard]] __device__ __forceinline__ Chunk make(const typename Source::Raw& raw,
                                                      const Place& at) const {
    return source.make(raw, at.row, at.column, at.count);
  }
  [[nodiscard]] __device__ __forceinline__ Chunk load(const Place& at) const {
    return make(fetch(at), at);
  }

  // A unit's scale, and whether this thread is the one that stores it.
  struct ScalePlace {
    Index batch;
    Index row;
    Index column;
    bool is_mine;
  };

  // What divides without a branch an element: all scales but the smallest, and reciprocals. Of the
  // short ways' scales none has a bound.
  static __device__ __forceinline__ bool is_quick(const Divisor& divisor) {
    return divisor.division == Division::fast ||
           (kIsGeneral && divisor.division == Division::fast_clamped);
  }

  // Writes the pad of a unit that does not exist, if there is one. One thread a unit.
  __device__ __forceinline__ void store_pad(Index index, Index column) const {
    if constexpr (Walk::kHasPads) {
      const Index row = walk.row_of(index, units_in_row);
      if (walk.fills_pads() && scales.is_pad(row, column)) {
        scales.write_pad(Index{0}, row, column);
      }
    }
  }

  // Divides, encodes and stores chunk[k] at place(k), and the scale. True where something rare is
  // left for finish_unit.
  template <class Codec, int kChunks, class PlaceOf>
  __device__ __forceinline__ bool store_unit(const Chunk (&chunk)[kChunks], const Divisor& divisor,
                                             const PlaceOf& place, const ScalePlace& at) const {
    if (__builtin_expect(divisor.division == Division::fast, 1)) {
#pragma unroll
      for (int k = 0; k < kChunks; ++k) store_fast<Codec>(chunk[k], divisor, place(k));
    } else if (is_quick(divisor)) {
#pragma unroll
      for (int k = 0; k < kChunks; ++k) store_clamped<Codec>(chunk[k], divisor, place(k));
    }
    if (at.is_mine) Scales::store(scales, at.batch, at.row, at.column, divisor.scale);
    return !is_quick(divisor) || (at.is_mine && has_pads_after(at));
  }

  // Codes of scales that do not divide fast, from elements that are read again; the pads that
  // follow the scale. A call at a kernel's end, for which no register has to wait.
  template <class Codec, int kChunks, class PlaceOf>
  __device__ __noinline__ void finish_unit(Divisor divisor, PlaceOf place, ScalePlace at) const {
    if (!is_quick(divisor)) {
#pragma unroll 1
      for (int k = 0; k < kChunks; ++k) store_slowly<Codec>(load(place(k)), divisor, place(k));
    }
    if (!at.is_mine || !has_pads_after(at)) return;
    if (has_pad_units()) {
      scales.write_row_pads(at.batch, at.row);
    } else {
      scales.write_pads_after(at.batch, at.row, at.column, rows.masks());
    }
  }

  // One chunk that is in registers, and a scale with its pads. Rare cases are calls.
  template <class Codec>
  __device__ __forceinline__ void store_held(const Chunk& chunk, const Divisor& divisor,
                                             const Place& at) const {
    if (__builtin_expect(divisor.division == Division::fast, 1)) {
      store_fast<Codec>(chunk, divisor, at);
    } else if (kIsGeneral && divisor.division != Division::exact) {
      store_quickly<Codec>(chunk, divisor, at);
    } else {
      store_rarely<Codec>(chunk, divisor, at);
    }
  }
  __device__ __forceinline__ void store_held_scale(const Divisor& divisor,
                                                   const ScalePlace& at) const {
    Scales::store(scales, at.batch, at.row, at.column, divisor.scale);
    if (scales.has_pads_after(at.row, at.column)) store_pads(at);
  }

  // One chunk of a unit that is read twice.
  template <class Codec>
  __device__ __forceinline__ void store_chunk(const Chunk& chunk, const Divisor& divisor,
                                              const Place& at) const {
    if (divisor.division == Division::fast) {
      store_fast<Codec>(chunk, divisor, at);
    } else if (is_quick(divisor)) {
      store_clamped<Codec>(chunk, divisor, at);
    } else {
      store_slowly<Codec>(chunk, divisor, at);
    }
  }
  // Its scale, with the pads that follow: one thread a unit.
  __device__ __forceinline__ void store_scale(const Divisor& divisor, const ScalePlace& at) const {
    Scales::store(scales, at.batch, at.row, at.column, divisor.scale);
    if (scales.has_pads_after(at.row, at.column)) {
      scales.write_pads_after(at.batch, at.row, at.column, rows.masks());
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ bool has_pad_units() const {
    if constexpr (Walk::kHasPads) return walk.fills_pads();
    return false;
  }
  // But for pads that have units.
  [[nodiscard]] __device__ __forceinline__ bool has_pads_after(const ScalePlace& at) const {
    return has_pad_units() ? scales.has_row_pads_after(at.column)
                           : scales.has_pads_after(at.row, at.column);
  }
  // Divides by divide(elements), in place.
  template <class Codec, class Divide>
  __device__ __forceinline__ void store_divided(const Chunk& chunk, const Place& at,
                                                Divide&& divide) const {
    float v[plan::kChunk];
    Source::values(chunk, v);
    divide(v);
    codes.template store<uint8_t>(at.row, at.column, at.count, Codec::encode(v, nan_xor));
  }
  template <class Codec>
  __device__ __forceinline__ void store_fast(const Chunk& chunk, const Divisor& divisor,
                                             const Place& at) const {
    store_divided<Codec>(chunk, at, [&](auto& v) { divide_fast(v, divisor.fast); });
  }
  template <class Codec>
  __device__ __forceinline__ void store_clamped(const Chunk& chunk, const Divisor& divisor,
                                                const Place& at) const {
    store_divided<Codec>(chunk, at, [&](auto& v) { divide_fast_clamped(v, divisor.fast); });
  }
  template <class Codec>
  __device__ __forceinline__ void store_quickly(const Chunk& chunk, const Divisor& divisor,
                                                const Place& at) const {
    store_divided<Codec>(chunk, at, [&](auto& v) { divide_quickly(v, divisor); });
  }
  template <class Codec>
  __device__ __noinline__ void store_rarely(Chunk chunk, Divisor divisor, Place at) const {
    store_slowly<Codec>(chunk, divisor, at);
  }
  __device__ __noinline__ void store_pads(ScalePlace at) const {
    scales.write_pads_after(at.batch, at.row, at.column, rows.masks());
  }
  template <class Codec>
  __device__ __forceinline__ void store_slowly(const Chunk& chunk, const Divisor& divisor,
                                               const Place& at) const {
    store_divided<Codec>(chunk, at, [&](auto& v) { divide_in_turn(v, divisor); });
  }
};

}  // namespace rowscale::cuda
