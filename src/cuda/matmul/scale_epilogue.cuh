// Sums in fp32 -> scales -> bias -> cast -> store. A warp takes 256 columns of two rows: its lanes
// read and write 16 bytes side by side, and what belongs to a column is read once for both rows.
#pragma once

#include "cuda/device/launch.cuh"
#include "cuda/device/words.cuh"
#include "cuda/matmul/scale_epilogue.hpp"
#include "cuda/stage/chunk.cuh"
#include "numerics/float16.hpp"
#include "plan/divider.hpp"
#include "plan/memory.hpp"

namespace rowscale::cuda {

inline constexpr int kEpilogueWarps = 4;
inline constexpr int kEpilogueThreads = 32 * kEpilogueWarps;
inline constexpr int kEpilogueRows = 2;  // of a warp
inline constexpr int kEpilogueTileRows = kEpilogueRows * kEpilogueWarps;
inline constexpr int kEpilogueTileColumns = 32 * static_cast<int>(kSumChunk);

struct ScaleEpilogueArguments {
  ScaleEpilogueCall call;
  int64_t column_tiles;
};

template <class T>
__device__ __forceinline__ float load_float(const void* from, int64_t at) {
  return numerics::to_f32(
      plan::load_as<T>(static_cast<const std::byte*>(from) + at * static_cast<int64_t>(sizeof(T))));
}
__device__ __forceinline__ float load_bias(const ScaleEpilogueCall& call, int64_t column) {
  switch (call.bias_dtype) {
    case DType::bf16:
      return load_float<numerics::Bf16>(call.bias, column);
    case DType::f16:
      return load_float<numerics::Fp16>(call.bias, column);
    default:
      return load_float<float>(call.bias, column);
  }
}

// `count` of the chunk's elements exist.
template <class T>
__device__ __forceinline__ void store_results(const ScaleEpilogueCall& call, int64_t row,
                                              int64_t column, int64_t count,
                                              const float (&v)[kSumChunk]) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  std::byte* const to =
      static_cast<std::byte*>(call.out) + (row * call.out_stride + column) * kBytes;
  if (count == kSumChunk && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
    store_words(to, Held<T>::to_memory(Held<T>::round(v)));
    return;
  }
#pragma unroll
  for (int i = 0; i < kSumChunk; ++i) {
    if (i < count) plan::store_as(to + i * kBytes, numerics::round_to<T>(v[i]));
  }
}

template <class T>
__global__ void __launch_bounds__(kEpilogueThreads)
    scale_epilogue(const __grid_constant__ ScaleEpilogueArguments a) {
  const ScaleEpilogueCall& call = a.call;
  const plan::QuotientRemainder tile = plan::divide(block_index<int64_t>(), a.column_tiles);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t column = tile.remainder * kEpilogueTileColumns + lane * kSumChunk;
  const int64_t first_row = tile.quotient * kEpilogueTileRows + warp * kEpilogueRows;
  begin_kernel();
  const int64_t left = call.n - column;
  if (left <= 0 || first_row >= call.m) return;
  const int64_t count = left < kSumChunk ? left : kSumChunk;

  // Load the sums: of a row that does not exist, those of the last one
  float v[kEpilogueRows][kSumChunk];
  const int64_t last = call.m - 1;
#pragma unroll
  for (int r = 0; r < kEpilogueRows; ++r) {
    const int64_t row = first_row + r < last ? first_row + r : last;
    const auto* from = reinterpret_cast<const float4*>(call.sums + row * call.sum_stride + column);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 four = from[half];
      v[r][4 * half] = four.x;
      v[r][4 * half + 1] = four.y;
      v[r][4 * half + 2] = four.z;
      v[r][4 * half + 3] = four.w;
    }
  }

  // Scale
  if (call.scales == EpilogueScales::both) {
    float scale_b[kSumChunk];
#pragma unroll
    for (int i = 0; i < kSumChunk; ++i) {
      scale_b[i] = i < count ? call.scale_b.load(0, (column + i) * call.step_b, 0) : 0.0F;
    }
#pragma unroll
    for (int r = 0; r < kEpilogueRows; ++r) {
      const int64_t row = first_row + r < last ? first_row + r : last;
      const float scale_a = call.scale_a.load(0, row * call.step_a, 0);
#pragma unroll
      for (int i = 0; i < kSumChunk; ++i) v[r][i] = v[r][i] * scale_a * scale_b[i];
    }
  }

  // Add the bias
  if (call.bias != nullptr) {
#pragma unroll
    for (int i = 0; i < kSumChunk; ++i) {
      const float bias = i < count ? load_bias(call, column + i) : 0.0F;
#pragma unroll
      for (int r = 0; r < kEpilogueRows; ++r) v[r][i] += bias;
    }
  }

  // Round and store
#pragma unroll
  for (int r = 0; r < kEpilogueRows; ++r) {
    if (first_row + r < call.m) store_results<T>(call, first_row + r, column, count, v[r]);
  }
}

}  // namespace rowscale::cuda
