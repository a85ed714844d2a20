// The CPU operators behind api/: arguments have been checked.
#pragma once

#include "cpu/source.hpp"
#include "plan/cpu_plan.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::cpu {

// `recipe` is resolved in these.
void quantize(const RowSource& source, const Recipe& recipe, const TensorView& codes,
              const TensorView& scales, const Exec& exec);
void dequantize(const TensorView& codes, const TensorView& scales, const Recipe& recipe,
                const TensorView& y, const Exec& exec);
// The rows of a source, stored.
void store_rows(const RowSource& source, const TensorView& y, const Exec& exec);
// Whether every scale is a value of UE8M0; otherwise where the first other one is and what it is.
struct ScalePosition {
  int64_t batch, row, column;
  float value;
};
bool all_scales_are_ue8m0(const TensorView& codes, const TensorView& scales, const Recipe& recipe,
                          ScalePosition* first_other);
void relayout_scales(const TensorView& codes, const TensorView& scales_in, const Recipe& recipe_in,
                     const TensorView& scales_out, const Recipe& recipe_out, const Exec& exec);

}  // namespace rowscale::cpu
