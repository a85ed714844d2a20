// Nothing to reduce: the scales are there, or all come from one amax.
#pragma once

#include "cuda/kernel/arguments.cuh"

namespace rowscale::cuda {

template <class Source>
struct ElementwiseArguments {
  QuantizeArguments<Source> call;
  ChunkScales given;
  plan::Divider chunks_in_row;
  int64_t chunks;
  const float* partials;  // null where scales are given
  int64_t partial_count;

  explicit ElementwiseArguments(const QuantizeCall& quantize)
      : call(quantize),
        given(quantize.grid, quantize.scales, quantize.x.columns()),
        chunks_in_row((quantize.x.columns() + plan::kChunk - 1) / plan::kChunk),
        chunks(quantize.x.rows() * chunks_in_row.divisor()),
        partials(quantize.partials),
        partial_count(quantize.partial_count) {}
};

struct ChunkPlace {
  int64_t row;
  int64_t column;
  int64_t count;  // elements that exist; 0 or less: none
};

template <class Source>
__device__ __forceinline__ ChunkPlace chunk_place(const ElementwiseArguments<Source>& a,
                                                  int64_t index) {
  if (index >= a.chunks) return {0, 0, 0};
  const int64_t row = a.chunks_in_row.divide(index);
  const int64_t column = (index - row * a.chunks_in_row.divisor()) * plan::kChunk;
  return {row, column, a.call.x.row_exists(row) ? a.call.columns - column : 0};
}

// Each element by a scale of its own, one after the other at the head of the array.
template <class Source>
__device__ __forceinline__ void divide_by_several(const ElementwiseArguments<Source>& a,
                                                  int64_t row, int64_t column, int64_t count,
                                                  float (&v)[plan::kChunk]) {
#pragma unroll 1
  for (int i = 0; i < plan::kChunk; ++i) {
    float quotient = 0.0F;
    if (i < count) {
      quotient = divide_one(v[0], make_divisor(a.given.of(row, column + i), a.call.rule));
    }
#pragma unroll
    for (int j = 0; j + 1 < plan::kChunk; ++j) v[j] = v[j + 1];
    v[plan::kChunk - 1] = quotient;
  }
}

template <class Source, class Codec>
__global__ void __launch_bounds__(plan::kGivenThreads)
    quantize_given(const __grid_constant__ ElementwiseArguments<Source> a) {
  const int64_t first = block_index() * (plan::kGivenThreads * plan::kGivenChunks) + threadIdx.x;
  begin_kernel();

  // Load
  ChunkPlace at[plan::kGivenChunks];
  typename Source::Chunk chunk[plan::kGivenChunks];
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    at[k] = chunk_place(a, first + k * plan::kGivenThreads);
    chunk[k] = a.call.source.load(at[k].row, at[k].column, at[k].count);
  }

  // Scale, encode and store
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    const auto [row, column, count] = at[k];
    if (count <= 0) continue;
    float v[plan::kChunk];
    Source::values(chunk[k], v);
    if (a.given.is_one(column)) {
      divide_given(v, make_divisor(a.given.of(row, column), a.call.rule));
    } else {
      divide_by_several(a, row, column, count, v);
    }
    a.call.codes.template store<uint8_t>(row, column, count, Codec::encode(v, a.call.nan_xor));
  }
}

}  // namespace rowscale::cuda
