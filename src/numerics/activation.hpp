// The activations that stand before a quantize, one element at a time, in fp32.
// docs/numerics.md section 5. T is the dtype of the operator's input; results are not yet rounded
// to it unless the name of a step says so.
#pragma once

#include "numerics/exp.hpp"
#include "numerics/float16.hpp"
#include "numerics/fp.hpp"

namespace rowscale::numerics {

inline constexpr float kSwishCutoff = 87.0F;        // exp of less counts as 0
inline constexpr float kGeluScale = 0.7978845608F;  // sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.044715F;

// g * sigmoid(alpha * g). exp never sees a positive argument, so nothing overflows;
// swish(+inf) = +inf, swish(-inf) is NaN.
ROWSCALE_HD float swish(float g, float alpha) {
  const float w = mul(alpha, g);
  const float t = abs(w);
  const float e = t > kSwishCutoff ? 0.0F : exp(-t);
  const float numerator = w < 0.0F ? mul(g, e) : g;
  return div(numerator, add(1.0F, e));
}

// Profile vllm: silu as its fused operators compute it. Nothing is rounded before up is multiplied,
// nor before the product is quantized. Where exp overflows, g is divided by infinity.
// silu_and_mul_quant (a given scale) and silu_and_mul_per_token_quant:
ROWSCALE_HD float silu_quotient(float g) {
  return div(g, add(1.0F, exp(-g)));
}
// silu_and_mul_per_block_quant:
ROWSCALE_HD float silu_product(float g) {
  return mul(g, div(1.0F, add(1.0F, exp(-g))));
}

// The tanh form, with tanh(y) = 1 - 2 / (exp(2y) + 1).
ROWSCALE_HD float gelu_tanh(float g) {
  const float cubed = mul(mul(g, g), g);
  const float y = mul(kGeluScale, fma(kGeluCubic, cubed, g));
  const float h = sub(1.0F, div(2.0F, add(exp(add(y, y)), 1.0F)));
  return mul(mul(0.5F, g), add(1.0F, h));
}

template <class T>
ROWSCALE_HD float silu_mul(float gate, float up) {
  return mul(round_through<T>(swish(gate, 1.0F)), up);
}

template <class T>
ROWSCALE_HD float gelu_tanh_mul(float gate, float up) {
  return mul(round_through<T>(gelu_tanh(gate)), up);
}

ROWSCALE_HD float relu2(float x) {
  if (is_nan(x)) return x;
  return x > 0.0F ? mul(x, x) : 0.0F;
}

ROWSCALE_HD float swiglu_clamped(float gate, float up, float alpha, float limit) {
  // The comparisons are false for NaN, which therefore stays.
  const float g = gate > limit ? limit : gate;
  float u = up < -limit ? -limit : up;
  u = u > limit ? limit : u;
  return mul(add(u, 1.0F), swish(g, alpha));
}

}  // namespace rowscale::numerics
