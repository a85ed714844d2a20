// codes -> decode -> scale -> round -> store.
#pragma once

#include "cuda/calls.hpp"
#include "cuda/device/launch.cuh"
#include "cuda/stage/codec.cuh"
#include "cuda/stage/source.cuh"
#include "plan/divider.hpp"
#include "plan/row_view.hpp"

namespace rowscale::cuda {

template <class Source>
struct DequantizeArguments {
  Source source;
  typename Source::Rows y;
  plan::RowView codes;  // masks
  plan::Divider chunks_in_row;
  int64_t chunks;

  explicit DequantizeArguments(const DequantizeCall& call)
      : source(call.source),
        y(call.y),
        codes(call.codes),
        chunks_in_row((call.codes.columns() + plan::kChunk - 1) / plan::kChunk),
        chunks(call.codes.rows() * chunks_in_row.divisor()) {}
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
  const int64_t first = block_index() * (plan::kGivenThreads * plan::kGivenChunks) + threadIdx.x;
  begin_kernel();

  // Load, decode and scale
  FloatChunk chunk[plan::kGivenChunks];
  int64_t row[plan::kGivenChunks];
  int64_t column[plan::kGivenChunks];
  int64_t count[plan::kGivenChunks];
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    const int64_t index = first + k * plan::kGivenThreads;
    row[k] = a.chunks_in_row.divide(index < a.chunks ? index : 0);
    column[k] = (index - row[k] * a.chunks_in_row.divisor()) * plan::kChunk;
    const bool exists = index < a.chunks && a.codes.row_exists(row[k]);
    count[k] = exists ? a.codes.columns() - column[k] : 0;
    chunk[k] = a.source.load(row[k], column[k], count[k]);
  }

  // Round and store
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    a.y.template store<T>(row[k], column[k], count[k], round_chunk<T>(chunk[k]));
  }
}

}  // namespace rowscale::cuda
