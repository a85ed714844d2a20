// The shapes of the general kernel's tiles.
#pragma once

#include "cuda/device/launch.cuh"
#include "cuda/matmul/code_tile.cuh"
#include "cuda/matmul/expert_tiles.cuh"
#include "cuda/matmul/general.hpp"

namespace rowscale::cuda {

// kRows x kColumns of out by a block. Each warp has kWarpRows x kWarpColumns of them; where kSlices
// is more than 1, as many warps have the same ones and take turns with the chunks of k.
template <GeneralTile kTile_, int kRows_, int kColumns_, int kWarpRows_, int kWarpColumns_,
          int kSlices_, int kStages_, int kResident_>
struct TileShape {
  static constexpr GeneralTile kTile = kTile_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kWarpRows = kWarpRows_;
  static constexpr int kWarpColumns = kWarpColumns_;
  static constexpr int kSlices = kSlices_;
  static constexpr int kStages = kStages_;  // of shared memory that copies run ahead by
  static constexpr int kResident = kResident_;

  static constexpr int kWarpsAlong = kColumns / kWarpColumns;
  static constexpr int kWarpsOfSlice = kRows / kWarpRows * kWarpsAlong;
  static constexpr int kThreads = 32 * kWarpsOfSlice * kSlices;
  // Of 16 x 8 results: an instruction's.
  static constexpr int kHighParts = (kWarpRows + 15) / 16;
  static constexpr int kWideParts = kWarpColumns / 8;
  static_assert(kWideParts % 2 == 0, "columns are loaded in sixteens");
  static_assert(kWarpRows == 8 || kWarpRows % 32 == 0);
  static_assert(128 % kColumns == 0, "a tile's columns have one block scale");
};

using FewRows = TileShape<GeneralTile::few, 8, 32, 8, 16, 4, 2, 2>;
using SomeRows = TileShape<GeneralTile::some, 64, 64, 32, 32, 1, 3, 3>;
using ManyRows = TileShape<GeneralTile::many, 128, 64, 64, 32, 1, 2, 2>;

// What a block has in shared memory: stages of codes, and when they are used up the sums of the
// tile, in rows that are padded so that no bank is asked twice.
template <class Shape>
struct TileMemory {
  struct Stage {
    std::byte a[Shape::kSlices][Shape::kRows * kChunkCodes];
    std::byte b[Shape::kSlices][Shape::kColumns * kChunkCodes];
  };
  static constexpr int kSumStride = Shape::kColumns + 8;
  union {
    Stage stages[Shape::kStages];
    float sums[Shape::kRows * kSumStride];
  };
};

// A tile of out: rows of one expert.
struct OutTile {
  int32_t expert;     // whose weights
  int32_t batch;      // of a and out
  int64_t first_row;  // in the batch
  int64_t first_column;
  int32_t rows;  // that exist
  int32_t columns;
};

// The tiles of a block, one after the other.
template <class Shape>
class TileWalk {
 public:
  __device__ explicit TileWalk(const GeneralCall& call)
      : call_(call), experts_(call.experts), number_(block_index<int64_t>()) {}

  // Whole warps call together. False: there are no more.
  __device__ bool next(OutTile* tile) {
    const bool found = call_.grouping == product::Grouping::none ? dense(tile) : grouped(tile);
    number_ += int64_t{gridDim.x} * gridDim.y;
    if (!found) return false;
    const int64_t columns_left = call_.n - tile->first_column;
    tile->columns = static_cast<int32_t>(columns_left < Shape::kColumns ? columns_left
                                                                        : int64_t{Shape::kColumns});
    return true;
  }

 private:
  // Blocks that run together have the same weights for a few tiles of rows, so that neither operand
  // is fetched from memory once for each tile of the other.
  static constexpr int64_t kBand = 8;

  __device__ int64_t columns() const { return (call_.n + Shape::kColumns - 1) / Shape::kColumns; }

  __device__ bool dense(OutTile* tile) const {
    const int64_t row_tiles = (call_.m + Shape::kRows - 1) / Shape::kRows;
    if (number_ >= row_tiles * columns()) return false;
    const int64_t band = number_ / (kBand * columns());
    const int64_t in_band = number_ - band * kBand * columns();
    const int64_t band_left = row_tiles - band * kBand;
    const int64_t height = band_left < kBand ? band_left : kBand;
    const int64_t column = in_band / height;
    tile->expert = 0;
    tile->batch = 0;
    tile->first_row = (band * kBand + in_band - column * height) * Shape::kRows;
    tile->first_column = column * Shape::kColumns;
    const int64_t rows_left = call_.m - tile->first_row;
    tile->rows = static_cast<int32_t>(rows_left < Shape::kRows ? rows_left : int64_t{Shape::kRows});
    return true;
  }

  __device__ bool grouped(OutTile* tile) {
    const int64_t number = number_ / columns();
    const RowTile rows = experts_.find_tile(number);
    if (rows.rows == 0) return false;
    tile->expert = static_cast<int32_t>(rows.expert);
    tile->batch = call_.grouping == product::Grouping::masked ? tile->expert : 0;
    tile->first_row = rows.first_row;
    tile->rows = rows.rows;
    tile->first_column = (number_ - number * columns()) * Shape::kColumns;
    return true;
  }

  const GeneralCall& call_;
  ExpertTiles<Shape::kRows> experts_;
  int64_t number_;
};

}  // namespace rowscale::cuda
