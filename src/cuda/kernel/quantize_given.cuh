// Nothing to reduce: the scales are there. Chunks as they come.
#pragma once

#include "cuda/kernel/arguments.cuh"

namespace rowscale::cuda {

// The chunks of all rows, one row after the other.
template <class Source, class Scales>
struct ElementwiseArguments {
  using Index = typename Source::Index;

  QuantizeArguments<Source, Scales> call;
  ChunkScales<Index> given;
  Index chunks;
  plan::Divider<Index> chunks_in_row;

  explicit ElementwiseArguments(const QuantizeCall& quantize)
      : call(quantize),
        given(quantize.recipe, quantize.x, quantize.scales),
        chunks_in_row(
            static_cast<Index>((quantize.x.columns() + plan::kChunk - 1) / plan::kChunk)) {
    chunks = static_cast<Index>(quantize.x.rows()) * chunks_in_row.divisor();
  }

  using Place = typename QuantizeArguments<Source, Scales>::Place;
  [[nodiscard]] __device__ __forceinline__ Place place(Index index) const {
    if (index >= chunks) return {0, 0, 0};
    const Index row = chunks_in_row.divide(index);
    const Index column = (index - row * chunks_in_row.divisor()) * plan::kChunk;
    return {row, column, call.rows.exists(call.rows.place(row)) ? call.columns - column : 0};
  }

  // Each element by a scale of its own, one after the other at the head of the array.
  __device__ __forceinline__ void divide_by_several(const Place& at,
                                                    float (&v)[plan::kChunk]) const {
#pragma unroll 1
    for (int i = 0; i < plan::kChunk; ++i) {
      float quotient = 0.0F;
      if (i < at.count) {
        quotient = divide_one(v[0], call.rule.divisor_of_given(given.of(at.row, at.column + i)));
      }
#pragma unroll
      for (int j = 0; j + 1 < plan::kChunk; ++j) v[j] = v[j + 1];
      v[plan::kChunk - 1] = quotient;
    }
  }
};

template <class Source, class Scales, class Codec>
__global__ void __launch_bounds__(plan::kGivenThreads,
                                  least_blocks<Source>(plan::kGivenThreads, plan::kGivenChunks))
    quantize_given(const __grid_constant__ ElementwiseArguments<Source, Scales> a) {
  using Index = typename Source::Index;
  constexpr Index kStep = plan::kGivenThreads;
  const Index first = block_index<Index>() * (kStep * plan::kGivenChunks) + thread_index<Index>();
  begin_kernel();

  // Load
  typename ElementwiseArguments<Source, Scales>::Place at[plan::kGivenChunks];
  typename Source::Chunk chunk[plan::kGivenChunks];
  float s[plan::kGivenChunks];
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) at[k] = a.place(first + k * kStep);
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    chunk[k] = a.call.load(at[k]);
    s[k] = at[k].count > 0 ? a.given.of(at[k].row, at[k].column) : 1.0F;
  }

  // Scale, encode and store
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    float v[plan::kChunk];
    Source::values(chunk[k], v);
    if (a.given.is_one(at[k].column)) {
      divide_given(v, a.call.rule.divisor_of_given(s[k]));
    } else {
      a.divide_by_several(at[k], v);
    }
    a.call.codes.template store<uint8_t>(at[k].row, at[k].column, at[k].count,
                                         Codec::encode(v, a.call.nan_xor));
  }
}

}  // namespace rowscale::cuda
