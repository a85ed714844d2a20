// The rows of a source that stores them itself (row_out), and nothing else.
#pragma once

#include "cuda/kernel/arguments.cuh"

namespace rowscale::cuda {

template <class Source>
struct MakeArguments {
  using Index = typename Source::Index;

  Source source;
  RowSet<Index> rows;
  AllChunks<Index> chunks;
  Index columns;

  explicit MakeArguments(const QuantizeCall& call)
      : source(call.source, call.loads),
        rows(call.x),
        chunks(call.codes),
        columns(static_cast<Index>(call.codes.columns())) {}
};

template <class Source>
__global__ void __launch_bounds__(plan::kGivenThreads)
    make_rows(const __grid_constant__ MakeArguments<Source> a) {
  using Index = typename Source::Index;
  constexpr Index kStep = plan::kGivenThreads;
  const Index first = block_index<Index>() * (kStep * plan::kGivenChunks) + thread_index<Index>();
  begin_kernel();

  // Load
  typename AllChunks<Index>::Place at[plan::kGivenChunks];
  Index count[plan::kGivenChunks];
  typename Source::Raw raw[plan::kGivenChunks];
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    at[k] = a.chunks.place(first + k * kStep);
    const bool exists = at[k].is_there && a.rows.exists(a.rows.place(at[k].row));
    count[k] = exists ? a.columns - at[k].column : 0;
    raw[k] = a.source.fetch(at[k].row, at[k].column, count[k]);
  }

  // Make and store
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    a.source.make(raw[k], at[k].row, at[k].column, count[k]);
  }
}

}  // namespace rowscale::cuda
