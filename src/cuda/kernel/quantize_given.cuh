// Nothing to reduce: the scales are there. Chunks as they come.
#pragma once

#include "cuda/kernel/arguments.cuh"

namespace rowscale::cuda {

template <class Source, class Scales>
struct ElementwiseArguments {
  using Index = typename Source::Index;

  QuantizeArguments<Source, Scales> call;
  ChunkScales<Index> given;
  AllChunks<Index> chunks;

  explicit ElementwiseArguments(const QuantizeCall& quantize)
      : call(quantize),
        given(quantize.recipe, quantize.codes, quantize.scales),
        chunks(quantize.codes) {}

  using Place = typename QuantizeArguments<Source, Scales>::Place;
  [[nodiscard]] __device__ __forceinline__ Place place(Index index) const {
    const auto [row, column, is_there] = chunks.place(index);
    const bool exists = is_there && call.rows.exists(call.rows.place(row));
    return {row, column, exists ? call.columns - column : 0};
  }

  // Whether the chunk has one scale, which divides without a branch an element.
  [[nodiscard]] __device__ __forceinline__ bool is_quick(const Place& at,
                                                         const Divisor& divisor) const {
    return given.is_one(at.column) && divisor.division != Division::exact;
  }
  // Any other chunk, loaded once more. A call at a kernel's end, for which no register has to wait.
  template <class Codec>
  __device__ __noinline__ void store_slowly(Place at) const {
    store_each<Codec>(call.load(at), at);
  }
  // A chunk that is there already, of any scales.
  template <class Codec>
  __device__ __forceinline__ void store_given(const typename Source::Chunk& chunk,
                                              const Place& at) const {
    const Divisor divisor = call.rule.divisor_of_given(given.of(at.row, at.column));
    if (is_quick(at, divisor)) {
      call.template store_held<Codec>(chunk, divisor, at);
    } else {
      store_each<Codec>(chunk, at);
    }
  }

 private:
  // Each element by its own scale, one after the other at the head of the array.
  template <class Codec>
  __device__ __forceinline__ void store_each(const typename Source::Chunk& chunk,
                                             const Place& at) const {
    float v[plan::kChunk];
    Source::values(chunk, v);
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
    call.codes.template store<uint8_t>(at.row, at.column, at.count, Codec::encode(v, call.nan_xor));
  }
};

// Of 1536 threads each has the registers that two chunks and their divisions take.
template <class Source>
constexpr int least_given_blocks() {
  const bool is_short =
      Source::Rows::kAccess == plan::GpuAccess::vectors && sizeof(typename Source::Chunk) == 16;
  return is_short ? 1536 / plan::kGivenThreads : 1;
}

template <class Source, class Scales, class Codec>
__global__ void __launch_bounds__(plan::kGivenThreads, least_given_blocks<Source>())
    quantize_given(const __grid_constant__ ElementwiseArguments<Source, Scales> a) {
  using Index = typename Source::Index;
  constexpr Index kStep = plan::kGivenThreads;
  const Index first = block_index<Index>() * (kStep * plan::kGivenChunks) + thread_index<Index>();
  begin_kernel();

  // Load
  typename ElementwiseArguments<Source, Scales>::Place at[plan::kGivenChunks];
  typename Source::Raw raw[plan::kGivenChunks];
  float s[plan::kGivenChunks];
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) at[k] = a.place(first + k * kStep);
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    raw[k] = a.call.fetch(at[k]);
    s[k] = at[k].count > 0 ? a.given.of(at[k].row, at[k].column) : 1.0F;
  }

  // Scale, encode and store. A thread's chunks mostly have the same scale.
  Divisor divisor = a.call.rule.divisor_of_given(s[0]);
  bool is_quick[plan::kGivenChunks];
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    if (k > 0 && numerics::to_bits(s[k]) != numerics::to_bits(s[k - 1])) {
      divisor = a.call.rule.divisor_of_given(s[k]);
    }
    is_quick[k] = a.is_quick(at[k], divisor);
    if (!is_quick[k]) continue;
    float v[plan::kChunk];
    Source::values(a.call.make(raw[k], at[k]), v);
    divide_quickly(v, divisor);
    a.call.codes.template store<uint8_t>(at[k].row, at[k].column, at[k].count,
                                         Codec::encode(v, a.call.nan_xor));
  }
#pragma unroll
  for (int k = 0; k < plan::kGivenChunks; ++k) {
    if (!is_quick[k]) a.template store_slowly<Codec>(at[k]);
  }
}

}  // namespace rowscale::cuda
