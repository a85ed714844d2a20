// The casts of checkpoints, profile compressed-tensors: what llm-compressor's oneshot writes for a
// weight of type T without data. docs/numerics.md section 9. Scale and quotient are rounded to T:
// two roundings to the code, by design, because readers' files are compared byte for byte.
#pragma once

#include "numerics/float16.hpp"
#include "numerics/fp8.hpp"

namespace rowscale::numerics {

// The distance from 1 to the next number of T: torch.finfo(T).eps.
template <class T>
inline constexpr float kEpsilon = 0x1p-23F;
template <>
inline constexpr float kEpsilon<Bf16> = 0x1p-7F;
template <>
inline constexpr float kEpsilon<Fp16> = 0x1p-10F;

// amax >= 0, a number of T. The scale is a number of T and never zero.
template <class T>
ROWSCALE_HD float checkpoint_scale(float amax) {
  const float s = round_through<T>(div(amax, E4m3::kMax));
  return s == 0.0F ? kEpsilon<T> : s;
}

// The addition of zero, the zero point, turns -0 into +0. encode saturates, which is the clamp to
// +-448 that stands before the conversion: the quotient of the largest element may be up to 453.
template <class T>
ROWSCALE_HD uint8_t checkpoint_code(float x, float s) {
  return encode<E4m3>(add(round_through<T>(div(x, s)), 0.0F));
}

}  // namespace rowscale::numerics
