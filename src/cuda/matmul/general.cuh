// Any product: copy codes -> fp16 -> tensor cores -> add parts in fp32 -> scale -> bias -> store.
//
// A block makes one tile of out after the other. Codes come through shared memory as they are, a
// few chunks of 128 along k ahead of the arithmetic, and become fp16 between shared memory and the
// tensor cores.
#pragma once

#include <type_traits>

#include "cuda/device/words.cuh"
#include "cuda/matmul/general_sums.cuh"
#include "numerics/float16.hpp"
#include "plan/memory.hpp"

namespace rowscale::cuda {

// Of kRows rows of an operand the chunks of all slices from `first_code` on; zeros where no row or
// no code is. `rows`: the first one of the tile.
template <class Shape, CodeLoads kLoads, int kRows>
__device__ __forceinline__ void copy_codes(std::byte (&to)[Shape::kSlices][kRows * kChunkCodes],
                                           const std::byte* rows, int64_t row_stride, int count,
                                           int64_t first_code, int64_t codes) {
  constexpr int kAll = Shape::kSlices * kRows * kPieces;
  static_assert(kAll % Shape::kThreads == 0);
#pragma unroll
  for (int i = 0; i < kAll / Shape::kThreads; ++i) {
    const int number = static_cast<int>(threadIdx.x) + i * Shape::kThreads;
    const int piece = number % kPieces;
    const int row = number / kPieces % kRows;
    const int slice = number / (kPieces * kRows);
    const int64_t code = first_code + slice * kChunkCodes + piece * kPiece;
    constexpr int64_t kMany = 64;
    const int64_t left = row < count ? codes - code : 0;
    const PieceSource source = {left > 0 ? rows + row * row_stride + code : rows,
                                static_cast<int>(code < kMany ? code : kMany),
                                static_cast<int>(left < kMany ? left : kMany)};
    copy_piece<kLoads>(to[slice] + piece_offset(row, piece), source);
  }
}

__device__ __forceinline__ float load_bias(const GeneralCall& call, int64_t column) {
  switch (call.bias_dtype) {
    case DType::f16:
      return numerics::to_f32(plan::load_as<numerics::Fp16>(call.bias + 2 * column));
    case DType::bf16:
      return numerics::to_f32(plan::load_as<numerics::Bf16>(call.bias + 2 * column));
    default:
      return plan::load_as<float>(call.bias + 4 * column);
  }
}

// Two neighbours of a row of out, each rounded once; the second may not be there.
template <class T>
__device__ __forceinline__ void store_pair(std::byte* row, int64_t column, float2 v,
                                           bool has_second, OutStores stores) {
  std::byte* const to = row + column * static_cast<int64_t>(sizeof(T));
  if constexpr (std::is_same_v<T, float>) {
    const float2 rounded = {numerics::round_to<float>(v.x), numerics::round_to<float>(v.y)};
    if (stores == OutStores::pairs && has_second) {
      *reinterpret_cast<float2*>(to) = rounded;
      return;
    }
    plan::store_as(to, rounded.x);
    if (has_second) plan::store_as(to + sizeof(T), rounded.y);
  } else {
    const uint32_t rounded = Pair<T>::round(v.x, v.y);
    if (stores == OutStores::pairs && has_second) {
      *reinterpret_cast<uint32_t*>(to) = rounded;
      return;
    }
    plan::store_as(to, static_cast<uint16_t>(rounded));
    if (has_second) plan::store_as(to + sizeof(T), static_cast<uint16_t>(rounded >> 16));
  }
}

// (sum * scale_a) * scale_b + bias, cast. Scales of blocks are inside the sums, and where k is 0
// there is nothing to be scaled.
template <class Shape, product::Scaling kScaling, class T>
__device__ __forceinline__ void store_tile_as(const GeneralCall& call, const OutTile& tile,
                                              const float* sums) {
  constexpr int kPairsOfRow = Shape::kColumns / 2;
  constexpr int kRowsAtOnce = Shape::kThreads / kPairsOfRow;
  const int in_tile = static_cast<int>(threadIdx.x) % kPairsOfRow * 2;
  if (in_tile >= tile.columns) return;
  const bool has_second = in_tile + 1 < tile.columns;
  const int64_t column = tile.first_column + in_tile;
  const bool is_scaled = kScaling == product::Scaling::vector && call.k > 0;
  float2 scale_b = {1.0F, 1.0F};
  float2 bias = {0.0F, 0.0F};
  if (is_scaled) {
    scale_b.x = load_scale(call.scale_b, tile.expert, column, 0);
    if (has_second) scale_b.y = load_scale(call.scale_b, tile.expert, column + 1, 0);
  }
  if (call.bias != nullptr) {
    bias.x = load_bias(call, column);
    if (has_second) bias.y = load_bias(call, column + 1);
  }
  std::byte* const out = call.out.data + tile.batch * call.out.batch_stride;
#pragma unroll 2
  for (int row = static_cast<int>(threadIdx.x) / kPairsOfRow; row < tile.rows; row += kRowsAtOnce) {
    float2 v =
        *reinterpret_cast<const float2*>(&sums[row * TileMemory<Shape>::kSumStride + in_tile]);
    if (is_scaled) {
      const float scale_a = load_scale(call.scale_a, tile.batch, tile.first_row + row, 0);
      v.x = numerics::mul(numerics::mul(v.x, scale_a), scale_b.x);
      v.y = numerics::mul(numerics::mul(v.y, scale_a), scale_b.y);
    }
    if (call.bias != nullptr) {
      v.x = numerics::add(v.x, bias.x);
      v.y = numerics::add(v.y, bias.y);
    }
    store_pair<T>(out + (tile.first_row + row) * call.out.row_stride, column, v, has_second,
                  call.stores);
  }
}

template <class Shape, product::Scaling kScaling>
__device__ __forceinline__ void store_tile(const GeneralCall& call, const OutTile& tile,
                                           const float* sums) {
  switch (call.out_dtype) {
    case DType::f16:
      return store_tile_as<Shape, kScaling, numerics::Fp16>(call, tile, sums);
    case DType::bf16:
      return store_tile_as<Shape, kScaling, numerics::Bf16>(call, tile, sums);
    default:
      return store_tile_as<Shape, kScaling, float>(call, tile, sums);
  }
}

template <class Shape, CodeLoads kLoads, product::Scaling kScaling, class FormatA, class FormatB>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kResident)
    general_product(const __grid_constant__ GeneralCall call) {
  using Sums = std::conditional_t<Shape::kSlices == 1, WholeSums<Shape, kScaling>,
                                  SharedSums<Shape, kScaling>>;
  constexpr int kStages = Shape::kStages;
  constexpr int kRoundCodes = Shape::kSlices * kChunkCodes;
  alignas(128) __shared__ TileMemory<Shape> memory;
  const WarpPlace<Shape> place;
  const auto rounds = static_cast<int32_t>((call.k + kRoundCodes - 1) / kRoundCodes);
  begin_kernel();

  TileWalk<Shape> walk(call);
  for (OutTile tile; walk.next(&tile);) {
    __syncthreads();  // the sums of the tile before have been read
    const std::byte* const a =
        call.a.data + tile.batch * call.a.batch_stride + tile.first_row * call.a.row_stride;
    const std::byte* const b =
        call.b.data + tile.expert * call.b.batch_stride + tile.first_column * call.b.row_stride;
    const auto copy = [&](int32_t round) {
      if (round < rounds) {
        auto& stage = memory.stages[round % kStages];
        copy_codes<Shape, kLoads, Shape::kRows>(stage.a, a, call.a.row_stride, tile.rows,
                                                int64_t{round} * kRoundCodes, call.k);
        copy_codes<Shape, kLoads, Shape::kColumns>(stage.b, b, call.b.row_stride, tile.columns,
                                                   int64_t{round} * kRoundCodes, call.k);
      }
      commit_pieces();  // an empty group too: the pending ones are counted
    };

    // Multiply and add
    Sums sums;
    for (int32_t round = 0; round < kStages - 1; ++round) copy(round);
    for (int32_t round = 0; round < rounds; ++round) {
      wait_for_pieces<kStages - 2>();
      __syncthreads();
      copy(round + kStages - 1);
      const int64_t chunk = int64_t{round} * Shape::kSlices;
      sums.fetch_scales(call, tile, chunk, place);
      sums.add(multiply_chunk<Shape, FormatA, FormatB>(memory.stages[round % kStages], place), call,
               chunk, place);
    }

    // Scale and store
    wait_for_pieces<0>();
    __syncthreads();
    sums.hand_over(memory, place);
    __syncthreads();
    store_tile<Shape, kScaling>(call, tile, memory.sums);
  }
}

}  // namespace rowscale::cuda
