// What makes a row just before it is quantized: RMSNorm and the (gated) activations. Each stands
// alone (`rms_norm`) and fused with quantize (`rms_norm_quantize`); the fused operator gives, bit
// for bit, what the chain of the two separate ones gives. Formulas: docs/numerics.md section 5;
// r(x) is rounding to the dtype of the operator's input. What quantize.hpp says of tensors, streams
// and errors holds here too.
//
// The fused operators take per_token, per_channel and per_group recipes, and given scales of every
// granularity. Dynamic per_tensor and per_block scales need the whole tensor first: they are
// refused; run the separate operator, then quantize. `row_out`, unless it is a default TensorView,
// receives the unquantized row in the dtype of x, in the same pass. Scales are those of the codes:
// scale_spec(codes, recipe), where a gated x has twice the columns.
//
// Profile vllm is that of vLLM's fused operators, with this library's order of sums, square root
// and exponential function in place of theirs (docs/numerics.md section 4). They are
//   rms_norm_quantize  given per_tensor     [fused_add_]rms_norm_static_fp8_quant
//                      dynamic per_token    rms_norm_dynamic_per_token_quant
//                      dynamic per_group    rms_norm_per_block_quant
//   silu_mul_quantize  given per_tensor     silu_and_mul_quant
//                      dynamic per_token    silu_and_mul_per_token_quant
//                      dynamic per_group    silu_and_mul_per_block_quant
// for groups of any size, in every encoding and layout; a norm is of the standard form with a
// weight in the dtype of x, and silu_mul_quantize has no row_out, as what it quantizes is in fp32.
// All else is refused: unsupported. Their scale_ub is the recipe's bound: of the amax, but of the
// scale for silu_mul_quantize per_group. Floors and cast points follow the operator, not resolve().
#pragma once

#include "rowscale/exec.hpp"
#include "rowscale/export.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale {

enum class NormForm : int32_t { standard = 0, gemma = 1 };

struct RmsNorm {
  TensorView weight;  // [hidden], f32, f16 or bf16, contiguous; it need not have the dtype of x
  float eps = 1e-6F;  // any float: used as it is, by IEEE
  NormForm form = NormForm::standard;
  // Absent (a default TensorView), or [..., hidden] in the dtype of x; z = r(x + residual) is
  // normed and stored here (profile vllm with dynamic scales: x + residual is normed in fp32, and
  // stored here rounded). Overlaps no other tensor.
  TensorView residual;
};

// x [..., hidden] -> y [..., hidden].
// z = x or r(x + residual); t = 1 / sqrt(sum(z*z) / hidden + eps), the sum by the tree of
// docs/numerics.md; standard: y = r(r(z * t) * w); gemma: y = r((z * t) * (1 + w)).
ROWSCALE_API Status rms_norm(const TensorView& x, const RmsNorm& norm, const TensorView& y,
                             const Exec& exec = {});
ROWSCALE_API Status rms_norm_quantize(const TensorView& x, const RmsNorm& norm,
                                      const Recipe& recipe, const TensorView& codes,
                                      const TensorView& scales, const TensorView& row_out = {},
                                      const Exec& exec = {});

// x [..., 2d], the gate in the first half -> y [..., d]: y = r(r(silu(gate)) * up).
ROWSCALE_API Status silu_mul(const TensorView& x, const TensorView& y, const Exec& exec = {});
ROWSCALE_API Status silu_mul_quantize(const TensorView& x, const Recipe& recipe,
                                      const TensorView& codes, const TensorView& scales,
                                      const TensorView& row_out = {}, const Exec& exec = {});

// x [..., 2d], the gate in the first half -> y [..., d]: y = r(r(gelu(gate)) * up), tanh form.
ROWSCALE_API Status gelu_tanh_mul(const TensorView& x, const TensorView& y, const Exec& exec = {});
ROWSCALE_API Status gelu_tanh_mul_quantize(const TensorView& x, const Recipe& recipe,
                                           const TensorView& codes, const TensorView& scales,
                                           const TensorView& row_out = {}, const Exec& exec = {});

// x [..., d] -> y [..., d]: y = r(x > 0 ? x*x : 0); NaN stays NaN.
ROWSCALE_API Status relu2(const TensorView& x, const TensorView& y, const Exec& exec = {});
ROWSCALE_API Status relu2_quantize(const TensorView& x, const Recipe& recipe,
                                   const TensorView& codes, const TensorView& scales,
                                   const TensorView& row_out = {}, const Exec& exec = {});

// gpt-oss: gate and up interleaved in x [..., 2d] -> y [..., d]. g = min(gate, limit),
// u = min(max(up, -limit), limit), NaN stays NaN; y = r((u + 1) * swish(g, alpha)).
struct SwigluClamped {
  float alpha = 1.702F;  // any float, by IEEE; a NaN limit clamps nothing
  float limit = 7.0F;
};
ROWSCALE_API Status swiglu_clamped(const TensorView& x, const SwigluClamped& params,
                                   const TensorView& y, const Exec& exec = {});
ROWSCALE_API Status swiglu_clamped_quantize(const TensorView& x, const SwigluClamped& params,
                                            const Recipe& recipe, const TensorView& codes,
                                            const TensorView& scales,
                                            const TensorView& row_out = {}, const Exec& exec = {});

}  // namespace rowscale
