// What the quantizing kernels are given, and the steps that all of them share.
#pragma once

#include "cuda/calls.hpp"
#include "cuda/device/launch.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/stage/codec.cuh"
#include "cuda/stage/rule.cuh"
#include "cuda/stage/source.cuh"
#include "plan/divider.hpp"
#include "plan/row_view.hpp"
#include "plan/scale_view.hpp"

namespace rowscale::cuda {

// A QuantizeCall for a kernel: positions in 64 bits, divisions prepared.
template <class Source>
struct QuantizeArguments {
  Source source;
  typename Source::Rows codes;
  plan::RowView x;  // batches and masks
  plan::ScaleGrid grid;
  plan::ScaleView scales;
  Rule rule;
  uint32_t nan_xor;
  int64_t columns;
  int64_t units;
  plan::Divider units_in_row;

  explicit QuantizeArguments(const QuantizeCall& call)
      : source(call.source),
        codes(call.codes),
        x(call.x),
        grid(call.grid),
        scales(call.scales),
        rule(call.rule),
        nan_xor(call.nan_xor),
        columns(call.x.columns()),
        units(call.x.rows() * call.grid.columns),
        units_in_row(call.grid.columns > 0 ? call.grid.columns : 1) {}

  [[nodiscard]] __device__ __forceinline__ plan::RowMasks masks() const {
    return x.is_masked() ? plan::RowMasks::counted : plan::RowMasks::none;
  }

  // A group of a row or the whole row: columns [begin, end).
  struct Unit {
    int64_t row;
    int64_t scale_column;
    int64_t begin;
    int64_t end;
  };
  [[nodiscard]] __device__ __forceinline__ Unit unit(int64_t index) const {
    const int64_t row = units_in_row.divide(index);
    const int64_t scale_column = index - row * units_in_row.divisor();
    const int64_t begin = scale_column * grid.unit_columns;
    const int64_t end = begin + grid.unit_columns;
    return {row, scale_column, begin, end < columns ? end : columns};
  }

  // Stores a unit's scale with the pads that follow it: one thread a unit.
  __device__ __forceinline__ void store_scale(const Unit& unit, float s) const {
    const plan::ScaleGrid::Position at = grid.of_row(unit.row);
    scales.store(at.batch, at.row, unit.scale_column, s);
    write_pads(at.batch, at.row, unit.scale_column);
  }
  // Few threads have any to write: not worth a copy of the code in every kernel.
  __device__ __noinline__ void write_pads(int64_t batch, int64_t row, int64_t column) const {
    scales.write_pads_after(batch, row, column, masks());
  }

  // Divides, encodes and stores a chunk of which `count` elements exist.
  __device__ __forceinline__ void store_codes(const typename Source::Chunk& chunk,
                                              const Divisor& divisor, int64_t row, int64_t column,
                                              int64_t count, auto codec) const {
    float v[plan::kChunk];
    Source::values(chunk, v);
    divide_scaled(v, divisor);
    codes.template store<uint8_t>(row, column, count, codec.encode(v, nan_xor));
  }
};

}  // namespace rowscale::cuda
