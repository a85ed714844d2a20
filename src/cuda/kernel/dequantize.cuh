// codes -> decode -> scale -> round -> store.
#pragma once

#include "cuda/kernel/arguments.cuh"

namespace rowscale::cuda {

template <class Source>
struct DequantizeArguments {
  using Index = typename Source::Index;

  Source source;
  typename Source::Rows y;
  RowSet<Index> rows;
  Index columns;
  AllChunks<Index> chunks;

  explicit DequantizeArguments(const DequantizeCall& call)
      : source(call.source, call.loads),
        y(call.y, call.loads),
        rows(call.codes),
        columns(static_cast<Index>(call.codes.columns())),
        chunks(call.codes) {}
};

template <class Source, class T>
__global__ void __launch_bounds__(plan::kGivenThreads)
    dequantize_chunks(const __grid_constant__ DequantizeArguments<Source> a) {
  using Index = typename Source::Index;
  constexpr Index kStep = plan::kGivenThreads;
  const Index first = block_index<Index>() * (kStep * plan::kGivenChunks) + thread_index<Index>();
  begin_kernel();

  // Load, decode and scale
  FloatChunk chunk[plan::kGivenChunks];
  Index row[plan::kGivenChunks];
  Index column[plan::kGivenChunks];
  Index count[plan::kGivenChunks];
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    const auto at = a.chunks.place(first + k * kStep);
    const bool exists = at.is_there && a.rows.exists(a.rows.place(at.row));
    row[k] = at.row;
    column[k] = at.column;
    count[k] = exists ? a.columns - at.column : 0;
    chunk[k] = a.source.fetch(at.row, at.column, count[k]);
  }

  // Round and store
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    a.y.template store<T>(row[k], column[k], count[k],
                          Held<T>::to_memory(Held<T>::round(chunk[k].v)));
  }
}

}  // namespace rowscale::cuda
