// Multi-head latent attention: the row that the first projection makes, normed, quantized and taken
// apart in one pass. What quantize.hpp says of tensors, streams and errors holds here too.
#pragma once

#include "rowscale/exec.hpp"
#include "rowscale/export.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale {

// The two norms; both of the standard form of rms_norm (producers.hpp). The weights' lengths say
// where a row is cut.
struct MlaNorm {
  TensorView q_weight;   // [q_rank], f32, f16 or bf16, contiguous
  TensorView kv_weight;  // [kv_rank], likewise
  float q_eps = 1e-6F;   // any float: used as it is, by IEEE
  float kv_eps = 1e-6F;
};

// Rows are those of x. A default TensorView is an output that is not wanted.
struct MlaOutputs {
  TensorView q_codes;    // [..., q_rank], as q_recipe says
  TensorView q_scales;   // as scale_spec(q_codes, q_recipe): written when dynamic, read when given
  TensorView q_row;      // optional: [..., q_rank] in the dtype of x, the normed row
  TensorView kv;         // [..., kv_rank] in the dtype of x, the normed row;
  TensorView kv_codes;   // and or instead of it [..., kv_rank], as kv_recipe says,
  TensorView kv_scales;  // with its scales
  TensorView rope;       // optional: [..., rope] in the dtype of x, copied bit for bit
};

// x [..., q_rank + kv_rank + rope], f32, f16 or bf16, rope >= 0; its columns are one dimension (a
// column_rank of 1). Masked rows as in quantize.
//   q_codes, q_scales, q_row     = rms_norm_quantize(x[..., :q_rank], q_weight, q_eps, q_recipe)
//   kv_codes, kv_scales, kv      = the same of the next kv_rank columns; kv alone: rms_norm
//   rope                         = the columns behind them
// bit for bit. Recipes as in the other fused operators: per_token, per_channel and per_group, and
// given scales of every granularity; profile rowscale. kv_recipe is looked at only where there are
// kv_codes. Outputs may lie side by side in the rows of one buffer, as kv and rope in a cache.
ROWSCALE_API Status mla_norm_quantize(const TensorView& x, const MlaNorm& norm,
                                      const Recipe& q_recipe, const Recipe& kv_recipe,
                                      const MlaOutputs& outputs, const Exec& exec = {});

}  // namespace rowscale
