// The CUDA operators: arguments have been checked, recipes are resolved. Work is put into
// exec.stream; nothing is allocated or waited for. In a build without CUDA each answers unsupported
// (absent.cpp).
#pragma once

#include <cstddef>

#include "plan/gpu_plan.hpp"
#include "plan/mla.hpp"
#include "plan/source.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::cuda {

// What the plan is made from.
Status quantize_problem(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                        const TensorView& scales, plan::GpuProblem* problem);

// invalid_argument: the workspace is smaller than workspace_bytes(). unsupported: a producer that
// has no kernel. device_error: what a launch returned.
Status quantize(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                const TensorView& scales, const Exec& exec);
// With one of plan::candidate_plans(problem).
Status quantize(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                const TensorView& scales, const Exec& exec, const plan::GpuPlan& plan);
// Recipes are resolved, that of kv only where there are kv codes.
Status mla_norm_quantize(const plan::Mla& mla, const Exec& exec);
// The rows of a source, unquantized. Waits for nothing and allocates nothing.
Status store_rows(const plan::Source& source, const TensorView& y, const Exec& exec);
// By a plan of one's own: a candidate of rows_problem().
Status store_rows(const plan::Source& source, const TensorView& y, const Exec& exec,
                  const plan::GpuPlan& plan);
// What the plan of a store_rows is asked for.
Status rows_problem(const plan::Source& source, const TensorView& y, plan::GpuProblem* problem);
Status dequantize(const TensorView& codes, const TensorView& scales, const Recipe& recipe,
                  const TensorView& y, const Exec& exec);
Status relayout_scales(const TensorView& codes, const TensorView& scales_in,
                       const Recipe& recipe_in, const TensorView& scales_out,
                       const Recipe& recipe_out, const Exec& exec);

// The casts of api/checkpoint_cast.hpp.
Status checkpoint_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                           const TensorView& scales, const Exec& exec);
Status checkpoint_absmax(const TensorView& x, const TensorView& amax, const Exec& exec);

// Of quantize, for a resolved recipe.
size_t workspace_bytes(const Recipe& recipe);

}  // namespace rowscale::cuda
