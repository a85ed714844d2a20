// RMSNorm: the sum of squares in one fixed order, and the normed element.
// docs/numerics.md section 5.
#pragma once

#include "numerics/float16.hpp"
#include "numerics/fp.hpp"

namespace rowscale::numerics {

// The tree: chunk j holds elements 8j .. 8j+7; lane j mod 256 adds the sum of chunk j, in order of
// j; then the lanes are added in halves. It depends on nothing but the row's length, so any number
// of threads can walk it and get the same bits.
inline constexpr int kTreeChunk = 8;
inline constexpr int kTreeLanes = 256;

// One more element of a chunk. A chunk starts from 0; absent elements count as 0.
ROWSCALE_HD float add_square(float chunk, float z) {
  return fma(z, z, chunk);
}

// lanes[0 .. 256) -> their sum; the array is used up.
ROWSCALE_HD float reduce_tree(float* lanes) {
  for (int width = kTreeLanes / 2; width > 0; width /= 2) {
    for (int l = 0; l < width; ++l) lanes[l] = add(lanes[l], lanes[l + width]);
  }
  return lanes[0];
}

// The factor of a row: 1 / sqrt(sum / hidden + eps).
ROWSCALE_HD float rms_factor(float sum_of_squares, int64_t hidden, float eps) {
  const float mean = div(sum_of_squares, static_cast<float>(hidden));
  return div(1.0F, sqrt(add(mean, eps)));
}

// Before the last rounding to T. z is x or r(x + residual); under profile vllm with dynamic scales,
// as in vLLM's rms_norm_dynamic_per_token_quant and rms_norm_per_block_quant, the sum x + residual
// in fp32.
template <class T>
ROWSCALE_HD float normed(float z, float factor, float weight) {
  return mul(round_through<T>(mul(z, factor)), weight);
}

ROWSCALE_HD float normed_gemma(float z, float factor, float weight) {
  return mul(mul(z, factor), add(1.0F, weight));
}

}  // namespace rowscale::numerics
