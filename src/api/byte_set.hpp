// The bytes that a tensor takes, and whether two tensors share any.
#pragma once

#include <cstdint>

#include "rowscale/tensor.hpp"

namespace rowscale::api {

// Sizes and reach of every view stay below this many bytes, so that no later sum overflows.
inline constexpr int64_t kMostBytes = int64_t{1} << 56;

// Bytes from data that the view touches: [low, high).
struct Extent {
  int64_t low = 0;
  int64_t high = 0;
};

// False where the view reaches kMostBytes or more. Strides of dimensions of size 0 and 1 do not
// count.
bool extent_of(const TensorView& view, Extent* extent);

// unknown: rows of different strides lie in one stretch of memory, and no rule says that they keep
// apart.
enum class Sharing { none, some, unknown };

// Runs of bytes in blocks, blocks in larger blocks. The view is not empty and has an extent.
class ByteSet {
 public:
  // Every element, without the gaps between rows.
  static ByteSet of_elements(const TensorView& view);
  // From the first byte to the last.
  static ByteSet of_span(const TensorView& view);

  // Exact for two sets whose blocks have the same pitches at every level, or are single, and do not
  // reach into each other, as the columns, rows and padded blocks of one cache; and wherever the
  // spans are apart.
  friend Sharing sharing(const ByteSet& a, const ByteSet& b);

 private:
  struct Level {
    int64_t count;  // blocks
    int64_t pitch;  // bytes from one to the next
    int64_t reach;  // bytes from the first byte of the first block to the last of the last
  };
  // What is left of a set from a level on: `count` blocks of it at a pitch.
  struct Blocks {
    int64_t count;
    int level;
  };

  [[nodiscard]] int64_t pitch(int level) const { return level < depth_ ? levels_[level].pitch : 0; }
  [[nodiscard]] int64_t reach(int level) const {
    return level < depth_ ? levels_[level].reach : width_;
  }
  [[nodiscard]] Blocks blocks(int level, int64_t at_pitch) const {
    return pitch(level) == at_pitch ? Blocks{levels_[level].count, level + 1} : Blocks{1, level};
  }
  // Of what is left of a and b, which begins `distance` bytes behind a.
  static Sharing sharing(const ByteSet& a, int level_a, const ByteSet& b, int level_b,
                         int64_t distance);
  // Whether a byte's place in the smallest common pitch says whose it is.
  static bool are_side_by_side(const ByteSet& a, int level_a, const ByteSet& b, int level_b,
                               int64_t distance);

  intptr_t begin_ = 0;
  int64_t width_ = 0;  // of a run
  int depth_ = 0;
  Level levels_[kMaxRank] = {};  // outermost first
};

}  // namespace rowscale::api
