// From checked arguments to the backend of their device.
#pragma once

#include <cstddef>

#include "plan/mla.hpp"
#include "plan/source.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::api {

// unsupported: a CPU target that this build or machine lacks.
Status check_target(Target target);

// Recipes need not be resolved. unsupported: no backend for the device of the first tensor.
Status run_quantize(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                    const TensorView& scales, const Exec& exec);
Status run_store_rows(const plan::Source& source, const TensorView& y, const Exec& exec);
Status run_mla(const plan::Mla& mla, const Exec& exec);
Status run_dequantize(const TensorView& codes, const TensorView& scales, const Recipe& recipe,
                      const TensorView& y, const Exec& exec);
Status run_relayout(const TensorView& codes, const TensorView& scales_in, const Recipe& recipe_in,
                    const TensorView& scales_out, const Recipe& recipe_out, const Exec& exec);

// Of run_quantize from the device of x.
size_t workspace_bytes(const TensorView& x, const Recipe& recipe);

}  // namespace rowscale::api
