// Which rows a tile of a grouped product has: found on the device, where the numbers of rows lie,
// so that one launch serves every division of the rows among the experts.
//
// Tiles are numbered expert by expert. An expert without rows has no tile, and no tile has rows of
// two experts.
#pragma once

#include <cstdint>

#include "numerics/fp.hpp"

namespace rowscale::cuda {

struct RowTile {
  int64_t expert = 0;
  int64_t first_row = 0;  // of a where rows are sorted, of the expert's rows where they are masked
  int32_t rows = 0;       // 1 to the height of a tile; 0: there is no tile of this number
  friend bool operator==(const RowTile&, const RowTile&) = default;
};

// The rows of every expert, by one of the two pointers.
struct ExpertRows {
  const int32_t* offsets = nullptr;  // [experts + 1], as MatmulTensors::expert_offsets
  const int32_t* counts = nullptr;   // [experts], as TensorView::row_counts of a
  int64_t experts = 0;
  int64_t rows = 0;  // of a; of one expert where rows are masked

  // What is read, clamped to 0 .. rows.
  [[nodiscard]] ROWSCALE_HD int32_t clamped(int32_t value) const {
    if (value < 0) return 0;
    return value > rows ? static_cast<int32_t>(rows) : value;
  }
};

// The largest number of tiles that any division of the rows makes: what is launched.
ROWSCALE_HD int64_t most_tiles(const ExpertRows& all, int64_t tile_rows) {
  if (all.counts != nullptr) return all.experts * ((all.rows + tile_rows - 1) / tile_rows);
  const int64_t used = all.experts < all.rows ? all.experts : all.rows;
  return used + (all.rows - used) / tile_rows;
}

// A few neighbouring experts: one thread's share of the search.
template <int kTileRows>
class ExpertShare {
 public:
  static constexpr int kExperts = 8;

  // Experts beyond the last have no rows.
  ROWSCALE_HD ExpertShare(const ExpertRows& all, int64_t first)
      : first_(first), is_masked_(all.counts != nullptr) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 0; i < kExperts; ++i) {
      const bool exists = first + i < all.experts;
      const int32_t* from = is_masked_ ? all.counts : all.offsets + 1;
      ends_[i] = exists ? all.clamped(from[first + i]) : 0;
    }
    // No offset is less than the one before it.
    for (int i = 1; i < kExperts && !is_masked_; ++i) {
      ends_[i] = ends_[i] > ends_[i - 1] ? ends_[i] : ends_[i - 1];
    }
  }

  // The highest offset of these experts.
  [[nodiscard]] ROWSCALE_HD int32_t highest() const {
    return ends_[kExperts - 1];
  }

  // `offset`: the highest one before these experts. To be called before what follows; nothing where
  // rows are masked.
  ROWSCALE_HD void start_at(int32_t offset) {
    if (is_masked_) return;
    begin_ = offset;
    for (int32_t& end : ends_) end = end > offset ? end : offset;
  }

  [[nodiscard]] ROWSCALE_HD int64_t tiles() const {
    int64_t sum = 0;
    for (int i = 0; i < kExperts; ++i) sum += tiles_of(i);
    return sum;
  }

  // number: 0 .. tiles() - 1, of these experts alone.
  [[nodiscard]] ROWSCALE_HD RowTile tile(int64_t number) const {
    RowTile found;
    for (int i = 0; i < kExperts; ++i) {
      if (number >= 0 && number < tiles_of(i)) {
        const int64_t first_row = begin(i) + number * kTileRows;
        const int64_t left = ends_[i] - first_row;
        found = {first_ + i, first_row, static_cast<int32_t>(left < kTileRows ? left : kTileRows)};
      }
      number -= tiles_of(i);
    }
    return found;
  }

 private:
  [[nodiscard]] ROWSCALE_HD int32_t begin(int i) const {
    return i == 0 || is_masked_ ? begin_ : ends_[i - 1];
  }
  [[nodiscard]] ROWSCALE_HD int32_t tiles_of(int i) const {
    // The sum of a count and a height may have 32 bits.
    return static_cast<int32_t>((static_cast<uint32_t>(ends_[i] - begin(i)) + (kTileRows - 1)) /
                                kTileRows);
  }

  int64_t first_;
  bool is_masked_;
  int32_t begin_ = 0;
  int32_t ends_[kExperts];
};

#if defined(__CUDACC__)

// The tiles in rising order, for one warp: all of its lanes call together and get the same answer.
// Every warp of a block may search for itself: what it reads lies in the cache, and nothing is
// shared. A step looks at 256 experts; their number has no limit.
template <int kTileRows>
class ExpertTiles {
 public:
  // Reads memory of the caller: after begin_kernel().
  __device__ explicit ExpertTiles(const ExpertRows& all)
      : all_(all), offset_(all.offsets != nullptr ? all.clamped(all.offsets[0]) : 0) {}

  // `number`: no less than in the call before.
  __device__ RowTile find_tile(int64_t number) {
    constexpr unsigned kAll = 0xFFFFFFFFU;
    const int lane = static_cast<int>(threadIdx.x % 32);
    for (; first_ < all_.experts; first_ += kStep) {
      Share share(all_, first_ + lane * Share::kExperts);
      const int32_t highest = max_of_lanes_up_to(lane, share.highest());
      const int32_t highest_before = __shfl_up_sync(kAll, highest, 1);
      share.start_at(lane > 0 && highest_before > offset_ ? highest_before : offset_);
      const int64_t tiles = share.tiles();
      const int64_t up_to = sum_of_lanes_up_to(lane, tiles);
      const int64_t in_share = number - tiles_ - (up_to - tiles);
      const bool is_mine = in_share >= 0 && in_share < tiles;
      const unsigned owner = __ballot_sync(kAll, is_mine);
      if (owner != 0) {
        const RowTile found = share.tile(in_share);
        const int from = __ffs(static_cast<int>(owner)) - 1;
        return {__shfl_sync(kAll, found.expert, from), __shfl_sync(kAll, found.first_row, from),
                __shfl_sync(kAll, found.rows, from)};
      }
      tiles_ += __shfl_sync(kAll, up_to, 31);
      const int32_t last = __shfl_sync(kAll, highest, 31);
      offset_ = last > offset_ ? last : offset_;
    }
    return {};
  }

 private:
  using Share = ExpertShare<kTileRows>;
  static constexpr int kStep = 32 * Share::kExperts;

  static __device__ int32_t max_of_lanes_up_to(int lane, int32_t value) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int32_t other = __shfl_up_sync(0xFFFFFFFFU, value, distance);
      if (lane >= distance && other > value) value = other;
    }
    return value;
  }
  static __device__ int64_t sum_of_lanes_up_to(int lane, int64_t value) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int64_t other = __shfl_up_sync(0xFFFFFFFFU, value, distance);
      if (lane >= distance) value += other;
    }
    return value;
  }

  const ExpertRows& all_;
  // Of the experts before this step.
  int64_t first_ = 0;
  int64_t tiles_ = 0;
  int32_t offset_;
};

#endif

}  // namespace rowscale::cuda
