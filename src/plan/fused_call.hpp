// What a call that quantizes means, in one place for every backend: its recipe with nothing left
// `standard`, and the operator's cast points.
#pragma once

#include "plan/source.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::plan {

struct FusedCall {
  Source source;
  Recipe recipe;  // resolved
};

// Whether vLLM has a fused operator for these scales behind this source: a norm or silu_mul with
// one given scale, or with dynamic ones a token or a group. All are there for a plain source.
bool has_vllm_operator(SourceKind kind, const Recipe& recipe);

// rowscale::resolve(), but for profile vllm behind a norm or silu_mul. There
//   dynamic scales      the floor is that of a token (scale >= 1 / (MAX * 512)) for groups too, and
//                       so is the NaN rule (clamp_high)
//   a norm, dynamic     x + residual is normed as it is in fp32, and stored rounded
//   silu_mul            the fp32 product is quantized; per_group in the form g * (1 / (1 + e^-g)),
//                       otherwise g / (1 + e^-g)
// The recipe has a vLLM operator (has_vllm_operator).
FusedCall resolve(const Source& source, const Recipe& recipe);

}  // namespace rowscale::plan
