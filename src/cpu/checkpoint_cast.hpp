// The casts of api/checkpoint_cast.hpp on the CPU: arguments as they are there.
#pragma once

#include "rowscale/exec.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::cpu {

void checkpoint_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                         const TensorView& scales, const Exec& exec);
float checkpoint_absmax(const TensorView& x, const Exec& exec);

}  // namespace rowscale::cpu
