// The sums of a tile. The tensor cores add up at most 128 products; such a part is scaled, where
// scales belong to blocks, and added in fp32. Parts of a row are the same and are added in the same
// order in every shape of a tile, which makes the bits of a row independent of m and of its place.
#pragma once

#include "cuda/matmul/general_tile.cuh"
#include "cuda/matmul/halves.cuh"
#include "numerics/fp.hpp"

namespace rowscale::cuda {

inline constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

__device__ __forceinline__ float load_scale(const ScaleRows& scales, int64_t batch, int64_t row,
                                            int64_t group) {
  return scales.view.load(batch, row * scales.row_step, group);
}

// sum + (part * scale_a) * scale_b
__device__ __forceinline__ float add_scaled(float part, float scale_a, float scale_b, float sum) {
  return numerics::fma(numerics::mul(part, scale_a), scale_b, sum);
}

// 16 x 8 += 16 x 16 times 16 x 8. Fragments as PTX has them for m16n8k16.
__device__ __forceinline__ void multiply_add(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The place of a thread: its warp's rows and columns of the tile, and its turn with the chunks.
template <class Shape>
struct WarpPlace {
  int lane = static_cast<int>(threadIdx.x % 32);
  int slice = static_cast<int>(threadIdx.x / 32) / Shape::kWarpsOfSlice;
  int row = static_cast<int>(threadIdx.x / 32) % Shape::kWarpsOfSlice / Shape::kWarpsAlong *
            Shape::kWarpRows;
  int column = static_cast<int>(threadIdx.x / 32) % Shape::kWarpsAlong * Shape::kWarpColumns;
};

template <class Shape>
struct Part {
  float v[Shape::kHighParts][Shape::kWideParts][4] = {};
};

// The part of one chunk of 128 along k. The order of k inside an instruction is that of a lane's
// bytes, which both operands share.
template <class Shape, class FormatA, class FormatB>
__device__ __forceinline__ Part<Shape> multiply_chunk(
    const typename TileMemory<Shape>::Stage& stage, const WarpPlace<Shape>& place) {
  constexpr int kHigh = Shape::kHighParts;
  constexpr int kWide = Shape::kWideParts;
  constexpr int kMatricesA = Shape::kWarpRows == 8 ? 2 : 4;
  const int in_eight = place.lane % 8;
  // Matrices of A: upper and lower eight rows, then the second 16 bytes; of B: the second 16 bytes,
  // then the next eight rows.
  const int row_a = kMatricesA == 2 ? in_eight : place.lane / 8 % 2 * 8 + in_eight;
  const int piece_a = kMatricesA == 2 ? place.lane / 8 % 2 : place.lane / 16;
  const int row_b = place.lane / 16 * 8 + in_eight;
  const int piece_b = place.lane / 8 % 2;
  const uint32_t a = shared_address(stage.a[place.slice] + (place.row + row_a) * kChunkCodes);
  const uint32_t b = shared_address(stage.b[place.slice] + (place.column + row_b) * kChunkCodes);

  // All steps at once of the largest parts do not fit the registers.
  constexpr int kStepsAtOnce = kHigh * kWide > 8 ? 2 : kPieces / 2;
  Part<Shape> part;
#pragma unroll kStepsAtOnce
  for (int step = 0; step < kPieces; step += 2) {
    uint32_t codes_a[kHigh][kMatricesA];
    uint32_t codes_b[kWide / 2][4];
#pragma unroll
    for (int i = 0; i < kHigh; ++i) {
      load_matrices(a + i * 16 * kChunkCodes + ((step + piece_a) ^ in_eight) * kPiece, codes_a[i]);
    }
#pragma unroll
    for (int j = 0; j < kWide / 2; ++j) {
      load_matrices(b + j * 16 * kChunkCodes + ((step + piece_b) ^ in_eight) * kPiece, codes_b[j]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t high[kHigh][4];
#pragma unroll
      for (int i = 0; i < kHigh; ++i) {
        const FourHalves upper = to_halves<FormatA>(codes_a[i][kMatricesA == 2 ? half : 2 * half]);
        FourHalves lower = {0, 0};
        if constexpr (kMatricesA == 4) lower = to_halves<FormatA>(codes_a[i][2 * half + 1]);
        high[i][0] = upper.first;
        high[i][1] = lower.first;
        high[i][2] = upper.second;
        high[i][3] = lower.second;
      }
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        const FourHalves wide = to_halves<FormatB>(codes_b[j / 2][j % 2 * 2 + half]);
        const uint32_t fragment[2] = {wide.first, wide.second};
#pragma unroll
        for (int i = 0; i < kHigh; ++i) multiply_add(part.v[i][j], high[i], fragment);
      }
    }
  }
  return part;
}

// Where no warp shares its results: each keeps its own.
template <class Shape, product::Scaling kScaling>
class WholeSums {
 public:
  // Starts the loads of a chunk's scales, to be used in add().
  __device__ __forceinline__ void fetch_scales(const GeneralCall& call, const OutTile& tile,
                                               int64_t chunk, const WarpPlace<Shape>& place) {
    if constexpr (kScaling == product::Scaling::block) {
#pragma unroll
      for (int i = 0; i < kScaleRegisters; ++i) {
        const int row = place.row + 32 * i + place.lane;
        scale_a_[i] = row < tile.rows
                          ? load_scale(call.scale_a, tile.batch, tile.first_row + row, chunk)
                          : 0.0F;
      }
      scale_b_ = load_scale(call.scale_b, tile.expert, tile.first_column / product::kBlock, chunk);
    }
  }

  __device__ __forceinline__ void add(const Part<Shape>& part, const GeneralCall& /*call*/,
                                      int64_t /*chunk*/, const WarpPlace<Shape>& place) {
#pragma unroll
    for (int i = 0; i < Shape::kHighParts; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float scale_a = 1.0F;
        if constexpr (kScaling == product::Scaling::block) {
          scale_a =
              __shfl_sync(kWholeWarp, scale_a_[i / 2], i % 2 * 16 + half * 8 + place.lane / 4);
        }
#pragma unroll
        for (int j = 0; j < Shape::kWideParts; ++j) {
#pragma unroll
          for (int c = 2 * half; c < 2 * half + 2; ++c) {
            sum_[i][j][c] = kScaling == product::Scaling::block
                                ? add_scaled(part.v[i][j][c], scale_a, scale_b_, sum_[i][j][c])
                                : numerics::add(sum_[i][j][c], part.v[i][j][c]);
          }
        }
      }
    }
  }

  // Into memory that no copy and no thread uses any more.
  __device__ __forceinline__ void hand_over(TileMemory<Shape>& memory,
                                            const WarpPlace<Shape>& place) const {
#pragma unroll
    for (int i = 0; i < Shape::kHighParts; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = place.row + 16 * i + 8 * half + place.lane / 4;
#pragma unroll
        for (int j = 0; j < Shape::kWideParts; ++j) {
          const int column = place.column + 8 * j + place.lane % 4 * 2;
          *reinterpret_cast<float2*>(&memory.sums[row * TileMemory<Shape>::kSumStride + column]) =
              make_float2(sum_[i][j][2 * half], sum_[i][j][2 * half + 1]);
        }
      }
    }
  }

 private:
  static constexpr int kScaleRegisters = Shape::kWarpRows / 32;
  float sum_[Shape::kHighParts][Shape::kWideParts][4] = {};
  float scale_a_[kScaleRegisters] = {};
  float scale_b_ = 0.0F;
};

// Where the warps take turns with the chunks: parts meet in shared memory, and one thread adds
// those of two neighbouring results, in the order of the chunks.
template <class Shape, product::Scaling kScaling>
class SharedSums {
 public:
  // `chunk`: the first one of a round.
  __device__ __forceinline__ void fetch_scales(const GeneralCall& call, const OutTile& tile,
                                               int64_t chunk, const WarpPlace<Shape>& /*place*/) {
    if constexpr (kScaling == product::Scaling::block) {
      if (!adds()) return;
#pragma unroll
      for (int s = 0; s < Shape::kSlices; ++s) {
        if (chunk + s >= chunks_of(call) || row() >= tile.rows) continue;
        scale_a_[s] = load_scale(call.scale_a, tile.batch, tile.first_row + row(), chunk + s);
        scale_b_[s] =
            load_scale(call.scale_b, tile.expert, tile.first_column / product::kBlock, chunk + s);
      }
    }
  }

  // Between two calls every thread has to pass a barrier.
  __device__ __forceinline__ void add(const Part<Shape>& part, const GeneralCall& call,
                                      int64_t chunk, const WarpPlace<Shape>& place) {
    __shared__ float2 parts[Shape::kSlices][kPairs];
#pragma unroll
    for (int j = 0; j < Shape::kWideParts; ++j) {
      const int pair =
          (place.row + place.lane / 4) * kPairsOfRow + (place.column + 8 * j) / 2 + place.lane % 4;
      parts[place.slice][pair] = make_float2(part.v[0][j][0], part.v[0][j][1]);
    }
    __syncthreads();
    if (!adds()) return;
#pragma unroll
    for (int s = 0; s < Shape::kSlices; ++s) {
      if (chunk + s >= chunks_of(call)) break;
      const float2 other = parts[s][threadIdx.x];
      if constexpr (kScaling == product::Scaling::block) {
        sum_.x = add_scaled(other.x, scale_a_[s], scale_b_[s], sum_.x);
        sum_.y = add_scaled(other.y, scale_a_[s], scale_b_[s], sum_.y);
      } else {
        sum_.x = numerics::add(sum_.x, other.x);
        sum_.y = numerics::add(sum_.y, other.y);
      }
    }
  }

  __device__ __forceinline__ void hand_over(TileMemory<Shape>& memory,
                                            const WarpPlace<Shape>& /*place*/) const {
    if (!adds()) return;
    const int column = static_cast<int>(threadIdx.x) % kPairsOfRow * 2;
    *reinterpret_cast<float2*>(&memory.sums[row() * TileMemory<Shape>::kSumStride + column]) = sum_;
  }

 private:
  static constexpr int kPairsOfRow = Shape::kColumns / 2;
  static constexpr int kPairs = Shape::kRows * kPairsOfRow;
  static_assert(Shape::kHighParts == 1 && Shape::kWarpRows == 8 && kPairs <= Shape::kThreads);

  static __device__ bool adds() {
    return threadIdx.x < kPairs;
  }
  static __device__ int row() {
    return static_cast<int>(threadIdx.x) / kPairsOfRow;
  }
  static __device__ int64_t chunks_of(const GeneralCall& call) {
    return (call.k + kChunkCodes - 1) / kChunkCodes;
  }

  float2 sum_ = {0.0F, 0.0F};
  float scale_a_[Shape::kSlices] = {};
  float scale_b_[Shape::kSlices] = {};
};

}  // namespace rowscale::cuda
