// From a recipe to the numerics' rule for its dynamic scales.
#pragma once

#include "numerics/scale_rule.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::plan {

// The recipe is resolved.
inline numerics::ScaleRule scale_rule(const Recipe& recipe) {
  const float max = recipe.format == Format::e4m3 ? numerics::E4m3::kMax : numerics::E5m2::kMax;
  return {max,
          recipe.floor.kind,
          recipe.floor.value,
          recipe.bound.kind,
          recipe.bound.value,
          recipe.encoding};
}

}  // namespace rowscale::plan
