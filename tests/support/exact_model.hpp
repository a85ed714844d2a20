// The producers of docs/numerics.md section 5 as the document writes them, step by step, with the
// correctly rounded operations of exact.hpp. Bit for bit what src/numerics must give.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/exact.hpp"

namespace rowscale::test {

inline float exp_model(float x) {
  if (std::isnan(x)) return x;
  x = std::min(std::max(x, -104.0F), 89.0F);
  const float n = add_exactly(fma_exactly(x, 0x1.715476p+0F, 0x1.8p23F), -0x1.8p23F);
  float f = fma_exactly(n, -0x1.62e4p-1F, x);
  f = fma_exactly(n, -0x1.7f7d1cp-20F, f);
  float p = 0x1.a0d2cep-13F;
  for (const float c :
       {0x1.6e879cp-10F, 0x1.11121p-7F, 0x1.555382p-5F, 0x1.555554p-3F, 0.5F, 1.0F, 1.0F}) {
    p = fma_exactly(p, f, c);
  }
  const auto h = static_cast<int>(std::floor(n / 2.0F));
  const auto scaled = static_cast<float>(std::ldexp(static_cast<double>(p), h));
  return static_cast<float>(std::ldexp(static_cast<double>(scaled), static_cast<int>(n) - h));
}

inline float swish_model(float g, float alpha) {
  const float w = mul_exactly(alpha, g);
  const float t = std::fabs(w);
  const float e = t > 87.0F ? 0.0F : exp_model(-t);
  const float numerator = w < 0.0F ? mul_exactly(g, e) : g;
  return div_exactly(numerator, add_exactly(1.0F, e));
}

// vLLM's forms: a quotient, and a product with a rounded sigmoid.
inline float silu_quotient_model(float g) {
  return div_exactly(g, add_exactly(1.0F, exp_model(-g)));
}
inline float silu_product_model(float g) {
  return mul_exactly(g, div_exactly(1.0F, add_exactly(1.0F, exp_model(-g))));
}

inline float gelu_tanh_model(float g) {
  const float cubed = mul_exactly(mul_exactly(g, g), g);
  const float y = mul_exactly(0.7978845608F, fma_exactly(0.044715F, cubed, g));
  const float e = exp_model(add_exactly(y, y));
  const float h = add_exactly(1.0F, -div_exactly(2.0F, add_exactly(e, 1.0F)));
  return mul_exactly(mul_exactly(0.5F, g), add_exactly(1.0F, h));
}

inline float swiglu_clamped_model(float gate, float up, float alpha, float limit) {
  const float g = std::isnan(gate) ? gate : std::min(gate, limit);
  const float u = std::isnan(up) ? up : std::min(std::max(up, -limit), limit);
  return mul_exactly(add_exactly(u, 1.0F), swish_model(g, alpha));
}

// The sum of squares of a row, from the top of the tree downwards.
class SquareSumModel {
 public:
  explicit SquareSumModel(std::vector<float> row) : row_(std::move(row)) {}

  float sum() const { return lane_after(1, 0); }

 private:
  // a[lane] once the halves down to `width` have been added.
  float lane_after(int width, int lane) const {
    if (width == 256) return lane_sum(lane, chunks());
    return add_exactly(lane_after(2 * width, lane), lane_after(2 * width, lane + width));
  }
  // The sum of the chunks lane, lane + 256, ... that lie before `end`.
  float lane_sum(int lane, int end) const {
    int last = -1;
    for (int chunk = lane; chunk < end; chunk += 256) last = chunk;
    if (last < 0) return 0.0F;
    return add_exactly(lane_sum(lane, last), chunk_sum(last, 8));
  }
  // The first `count` elements of a chunk; absent ones are 0.
  float chunk_sum(int chunk, int count) const {
    if (count == 0) return 0.0F;
    const auto index = static_cast<size_t>(8 * chunk + count - 1);
    const float z = index < row_.size() ? row_[index] : 0.0F;
    return fma_exactly(z, z, chunk_sum(chunk, count - 1));
  }
  int chunks() const { return static_cast<int>((row_.size() + 7) / 8); }

  std::vector<float> row_;
};

// How far a result is from the true value, in ulp of the true value: the distance of floats at that
// magnitude, 2^-149 below the normal ones.
template <class Real>
double error_in_ulp(float result, Real truth) {
  const int exponent = truth == 0 ? -126 : std::max(std::ilogb(truth), -126);
  return static_cast<double>(std::fabs(static_cast<Real>(result) - truth) *
                             std::ldexp(Real{1}, 23 - exponent));
}

}  // namespace rowscale::test
