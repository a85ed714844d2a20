// The CPU's operators: arguments have been checked, recipes are resolved. On return all is done.
#pragma once

#include "cpu/kernels.hpp"
#include "cpu/source.hpp"
#include "plan/cpu_plan.hpp"
#include "plan/mla.hpp"
#include "plan/source.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::cpu {

// plan::plan_cpu with the threads and the target that `exec` means on this machine.
plan::CpuPlan make_plan(const Recipe& recipe, int64_t rows, int64_t columns, plan::RowUse use,
                        const Exec& exec);

// internal: a source whose rows are whole with scales over several rows (api/ refuses it).
Status quantize(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                const TensorView& scales, const Exec& exec);
Status dequantize(const TensorView& codes, const TensorView& scales, const Recipe& recipe,
                  const TensorView& y, const Exec& exec);
// The rows of a source, stored.
Status store_rows(const plan::Source& source, const TensorView& y, const Exec& exec);
// Recipes are resolved, that of kv only where there are kv codes.
Status mla_norm_quantize(const plan::Mla& mla, const Exec& exec);
// invalid_argument, before any work, for ue8m0_f32 scales that are no powers of two.
Status relayout_scales(const TensorView& codes, const TensorView& scales_in,
                       const Recipe& recipe_in, const TensorView& scales_out,
                       const Recipe& recipe_out, const Exec& exec);

}  // namespace rowscale::cpu
