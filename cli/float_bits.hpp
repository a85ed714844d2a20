// The bits of f32, f16 and bf16 values, for making data and for looking at them. Quantization
// itself never comes through here.
#pragma once

#include <cstdint>

#include "rowscale/types.hpp"

namespace rowscale::cli {

struct FloatFormat {
  int bytes;
  int mantissa_bits;
  uint32_t sign;      // mask
  uint32_t exponent;  // mask
};

FloatFormat float_format(DType dtype);          // f32, f16, bf16
uint32_t float_bits(DType dtype, float value);  // rounded to nearest even; no NaN
float float_value(DType dtype, uint32_t bits);  // exact

}  // namespace rowscale::cli
