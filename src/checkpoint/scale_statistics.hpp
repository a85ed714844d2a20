// What the scales of a model's FP8 weights look like, in the memory of one strip.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "checkpoint/model.hpp"

namespace rowscale::checkpoint {

struct ScaleStatistics {
  int64_t tensors = 0;
  int64_t scales = 0;
  // Scales that no weight should have; they count in none of the fields below.
  int64_t zero = 0;
  int64_t negative = 0;
  int64_t not_finite = 0;

  float smallest = 0;
  float largest = 0;
  // [e + 150]: how many lie in [2^e, 2^(e+1)), from the smallest subnormal 2^-149 on.
  std::array<int64_t, 278> binades = {};

  int64_t sound() const { return scales - zero - negative - not_finite; }
  // e, where the median lies in [2^e, 2^(e+1)); only where sound() > 0.
  int median_binade() const;
  void add(std::span<const float> values);
};

// Of every tensor that is named like the scales of an FP8 weight which is there. Shards are
// acquired and released. Throws Failure(unreadable).
ScaleStatistics scale_statistics(Model& model);

}  // namespace rowscale::checkpoint
