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
  Index chunks;
  plan::Divider<Index> chunks_in_row;

  explicit DequantizeArguments(const DequantizeCall& call)
      : source(call.source, call.loads),
        y(call.y, call.loads),
        rows(call.codes),
        columns(static_cast<Index>(call.codes.columns())),
        chunks_in_row(
            static_cast<Index>((call.codes.columns() + plan::kChunk - 1) / plan::kChunk)) {
    chunks = static_cast<Index>(call.codes.rows()) * chunks_in_row.divisor();
  }
};

// Each value rounded once to T; NaN in its canonical form.
template <class T>
__device__ __forceinline__ Words<plan::kChunk * sizeof(T)> round_chunk(const FloatChunk& chunk) {
  Words<plan::kChunk * sizeof(T)> words;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < plan::kChunk; ++i) {
      words.w[i] = numerics::to_bits(numerics::canonical(chunk.v[i]));
    }
  } else {
#pragma unroll
    for (int i = 0; i < plan::kChunk / 2; ++i) {
      words.w[i] = Pair<T>::round(chunk.v[2 * i], chunk.v[2 * i + 1]);
    }
  }
  return words;
}

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
    const Index index = first + k * kStep;
    const Index i = index < a.chunks ? index : 0;
    row[k] = a.chunks_in_row.divide(i);
    column[k] = (i - row[k] * a.chunks_in_row.divisor()) * plan::kChunk;
    const bool exists = index < a.chunks && a.rows.exists(a.rows.place(row[k]));
    count[k] = exists ? a.columns - column[k] : 0;
    chunk[k] = a.source.load(row[k], column[k], count[k]);
  }

  // Round and store
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    a.y.template store<T>(row[k], column[k], count[k], round_chunk<T>(chunk[k]));
  }
}

}  // namespace rowscale::cuda
