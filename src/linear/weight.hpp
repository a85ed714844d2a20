// Sizes of a packed weight.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rowscale/linear.hpp"

namespace rowscale::linear {

inline constexpr int64_t kBlock = 128;

template <class Integer>
constexpr Integer round_up(Integer value, Integer unit) {
  return (value + unit - 1) / unit * unit;
}

// Elements between rows of scales: of blocks those of block_k4.
inline int64_t scale_pitch(const PackedWeightSpec& spec) {
  if (spec.recipe.granularity != Granularity::per_block) return 1;
  return round_up((spec.k + kBlock - 1) / kBlock, int64_t{4});
}

inline bool is_same(const PackedWeightSpec& a, const PackedWeightSpec& b) {
  const auto same_part = [](const WeightPart& x, const WeightPart& y) {
    return x.first_row == y.first_row && x.rows == y.rows && x.padded_rows == y.padded_rows &&
           x.codes_offset == y.codes_offset && x.scales_offset == y.scales_offset;
  };
  return a.n == b.n && a.k == b.k && a.padded_k == b.padded_k && a.recipe == b.recipe &&
         a.has_one_scale == b.has_one_scale && a.codes_bytes == b.codes_bytes &&
         a.scales_bytes == b.scales_bytes &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), same_part);
}

}  // namespace rowscale::linear
