#include "api/byte_set.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace rowscale::api {
namespace {

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

}  // namespace

bool extent_of(const TensorView& view, Extent* extent) {
  const int64_t size = element_size(view.dtype);
  *extent = {0, size};
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] <= 1) continue;
    int64_t reach;
    if (__builtin_mul_overflow(view.shape[i] - 1, view.strides[i], &reach) ||
        __builtin_mul_overflow(reach, size, &reach) || reach >= kMostBytes ||
        reach <= -kMostBytes) {
      return false;
    }
    (reach < 0 ? extent->low : extent->high) += reach;  // at most kMaxRank * kMostBytes
  }
  return extent->high < kMostBytes && extent->low > -kMostBytes;
}

ByteSet ByteSet::of_span(const TensorView& view) {
  Extent extent;
  extent_of(view, &extent);
  ByteSet set;
  set.begin_ = reinterpret_cast<intptr_t>(view.data) + extent.low;
  set.width_ = extent.high - extent.low;
  return set;
}

ByteSet ByteSet::of_elements(const TensorView& view) {
  const int64_t size = element_size(view.dtype);
  ByteSet set = of_span(view);
  set.width_ = size;
  for (int i = 0; i < view.rank; ++i) {
    // A stride of 0 repeats the same bytes.
    if (view.shape[i] == 1 || view.strides[i] == 0) continue;
    set.levels_[set.depth_++] = {view.shape[i], std::abs(view.strides[i]) * size, 0};
  }
  std::sort(set.levels_, set.levels_ + set.depth_,
            [](const Level& a, const Level& b) { return a.pitch > b.pitch; });
  // Runs that touch or overlap are one run.
  while (set.depth_ > 0 && set.levels_[set.depth_ - 1].pitch <= set.width_) {
    const Level& inner = set.levels_[--set.depth_];
    set.width_ += (inner.count - 1) * inner.pitch;
  }
  int64_t reach = set.width_;
  for (int i = set.depth_ - 1; i >= 0; --i) {
    reach += (set.levels_[i].count - 1) * set.levels_[i].pitch;
    set.levels_[i].reach = reach;
  }
  return set;
}

bool ByteSet::are_side_by_side(const ByteSet& a, int level_a, const ByteSet& b, int level_b,
                               int64_t distance) {
  int64_t common = 0;
  for (int i = level_a; i < a.depth_; ++i) common = std::gcd(common, a.levels_[i].pitch);
  for (int i = level_b; i < b.depth_; ++i) common = std::gcd(common, b.levels_[i].pitch);
  const int64_t offset = distance - floor_div(distance, common) * common;
  return offset >= a.width_ && offset + b.width_ <= common;
}

// Each level is left behind once on one side at least, and two pairs of blocks are looked at for
// it, so that the work is bounded: 2^(2 * kMaxRank) steps, a handful for what occurs.
Sharing ByteSet::sharing(const ByteSet& a, int level_a, const ByteSet& b, int level_b,
                         int64_t distance) {
  if (distance >= a.reach(level_a) || -distance >= b.reach(level_b)) return Sharing::none;
  const int64_t pitch = std::max(a.pitch(level_a), b.pitch(level_b));
  if (pitch == 0) return Sharing::some;  // two runs
  const Blocks of_a = a.blocks(level_a, pitch);
  const Blocks of_b = b.blocks(level_b, pitch);
  const int64_t reach_a = a.reach(of_a.level);
  const int64_t reach_b = b.reach(of_b.level);
  if (reach_a > pitch || reach_b > pitch) {
    return are_side_by_side(a, level_a, b, level_b, distance) ? Sharing::none : Sharing::unknown;
  }
  // Block i of a and block j of b are distance + (j - i) * pitch apart: of all differences, those
  // for which they may meet, of which there are two at most.
  const int64_t first = std::max(floor_div(-reach_b - distance, pitch) + 1, -(of_a.count - 1));
  Sharing all = Sharing::none;
  for (int64_t k = first; k < of_b.count && distance + k * pitch < reach_a; ++k) {
    const Sharing one = sharing(a, of_a.level, b, of_b.level, distance + k * pitch);
    if (one == Sharing::some) return one;
    if (one == Sharing::unknown) all = one;
  }
  return all;
}

Sharing sharing(const ByteSet& a, const ByteSet& b) {
  return ByteSet::sharing(a, 0, b, 0, b.begin_ - a.begin_);
}

}  // namespace rowscale::api
