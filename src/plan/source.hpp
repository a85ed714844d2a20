// Where the rows of a call come from, as a value: what api/ checks and every backend can read.
#pragma once

#include "rowscale/producers.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::plan {

enum class SourceKind {
  plain,        // x as it is
  dequantized,  // codes x times scales, in fp32
  rms_norm,
  silu_mul,
  gelu_tanh_mul,
  relu2,
  swiglu_clamped,
};

const char* to_string(SourceKind kind);

// The sum that a norm with a residual norms: r(x + residual), which is also stored, or the sum in
// fp32, which is stored rounded.
enum class ResidualSum { rounded, unrounded };

// silu_mul of a gate g and an up u (numerics/activation.hpp).
enum class SiluForm {
  rounded,   // r(r(swish(g, 1)) * u)
  quotient,  // silu_quotient(g) * u, in fp32
  product,   // silu_product(g) * u, in fp32
};

struct Source {
  SourceKind kind = SourceKind::plain;
  TensorView x;
  TensorView scales;                                // dequantized: of x
  Recipe recipe;                                    // dequantized: of x
  RmsNorm norm;                                     // rms_norm
  ResidualSum residual_sum = ResidualSum::rounded;  // rms_norm
  SiluForm silu = SiluForm::rounded;                // silu_mul
  SwigluClamped swiglu;                             // swiglu_clamped
  TensorView row_out;  // where each row is stored as it was made; no data: nowhere
};

}  // namespace rowscale::plan
