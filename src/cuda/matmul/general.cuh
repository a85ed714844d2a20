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

// A thread's share of the copies of kRows rows of an operand: a piece of a row, and the same piece
// of other rows or slices.
template <class Shape, CodeLoads kLoads, int kRows>
class CodeCopy {
 public:
  // `rows`: the first one of the tile, `count` of them exist.
  __device__ __forceinline__ CodeCopy(const std::byte* rows, int64_t row_stride, int count)
      : from_(rows + row() * row_stride + first_code()), rows_left_(count - row()) {}

  // The chunks of all slices, `codes_before` behind the begin of the rows, which have `codes`;
  // zeros where no row or no code is.
  __device__ __forceinline__ void operator()(std::byte (&to)[Shape::kSlices][kRows * kChunkCodes],
                                             int64_t row_stride, int64_t codes_before,
                                             int64_t codes) const {
    const int64_t pass_stride =
        kRowsOfPass < kRows ? kRowsOfPass * row_stride : int64_t{kSlicesOfPass} * kChunkCodes;
    std::byte* const first = to[slice()] + piece_offset(row(), piece());
    const int left = static_cast<int>(less(codes - codes_before, 4 * kRoundCodes)) - first_code();
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const bool row_exists = (kRowsOfPass < kRows ? i * kRowsOfPass : 0) < rows_left_;
      const int code = kRowsOfPass < kRows ? 0 : i * kSlicesOfPass * kChunkCodes;
      PieceSource source = {from_ + codes_before + i * pass_stride, 0,
                            row_exists ? left - code : 0};
      if constexpr (kLoads == CodeLoads::any) {
        source.before = static_cast<int>(less(codes_before + first_code() + code, kPiece));
      }
      copy_piece<kLoads>(first + i * Shape::kThreads * kPiece, source);
    }
  }

 private:
  static constexpr int kRoundCodes = Shape::kSlices * kChunkCodes;
  static constexpr int kPasses = kRows * Shape::kSlices * kPieces / Shape::kThreads;
  static constexpr int kRowsOfPass = Shape::kThreads / kPieces;
  static constexpr int kSlicesOfPass = kRowsOfPass / kRows;
  static_assert(kPasses * Shape::kThreads == kRows * Shape::kSlices * kPieces);
  static_assert(kRowsOfPass % kRows == 0 || (Shape::kSlices == 1 && kRows % kRowsOfPass == 0));
  static_assert(kRowsOfPass % 8 == 0, "a piece lies at the same place in the rows of every pass");

  static __device__ int thread() {
    return static_cast<int>(threadIdx.x);
  }
  static __device__ int piece() {
    return thread() % kPieces;
  }
  static __device__ int row() {
    return thread() / kPieces % kRows;
  }
  static __device__ int slice() {
    return thread() / kPieces / kRows;
  }
  static __device__ int first_code() {
    return slice() * kChunkCodes + piece() * kPiece;
  }
  static __device__ int64_t less(int64_t a, int64_t b) {
    return a < b ? a : b;
  }

  const std::byte* from_;
  int rows_left_;
};

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
    const CodeCopy<Shape, kLoads, Shape::kRows> copy_a(a, call.a.row_stride, tile.rows);
    const CodeCopy<Shape, kLoads, Shape::kColumns> copy_b(b, call.b.row_stride, tile.columns);
    const auto copy = [&](int32_t round) {
      if (round < rounds) {
        auto& stage = memory.stages[round % kStages];
        copy_a(stage.a, call.a.row_stride, int64_t{round} * kRoundCodes, call.k);
        copy_b(stage.b, call.b.row_stride, int64_t{round} * kRoundCodes, call.k);
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
