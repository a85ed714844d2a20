// The recipes that fused operators take.
#pragma once

#include <cstdint>
#include <vector>

#include "rowscale/recipe.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {

// Every granularity with every encoding and layout that a fused operator has, groups of each of
// these sizes among them; given scales of every granularity; and the rules of the rare calls.
inline std::vector<Recipe> fused_recipes(const std::vector<int64_t>& group_sizes) {
  std::vector<Recipe> recipes;
  for (ScaleEncoding encoding : kUnpackedEncodings) {
    recipes.push_back(with(per_token(), encoding));
    recipes.push_back(with(per_channel(), encoding));
  }
  for (int64_t size : group_sizes) {
    const std::vector<Recipe> groups = group_recipes(size);
    recipes.insert(recipes.end(), groups.begin(), groups.end());
  }
  const int64_t size = group_sizes.front();
  for (const Recipe& recipe : {per_tensor(), per_token(), per_channel(), per_column(),
                               per_group(size), with(per_group(size), ScaleEncoding::ue8m0_packed),
                               with(per_token(), ScaleEncoding::ue8m0), per_block(2, 64)}) {
    recipes.push_back(with(recipe, ScaleSource::given));
  }
  recipes.push_back(bounded(per_token(), {BoundKind::amax, 1.5F}));
  recipes.push_back(bounded(per_group(size), {BoundKind::scale, 0x1p-8F}));
  recipes.push_back(by_reciprocal(per_token()));
  Recipe clamped = by_reciprocal(with(per_group(size), ScaleEncoding::ue8m0));
  clamped.nan = NanRule::clamp_low;
  recipes.push_back(clamped);
  return recipes;
}

}  // namespace rowscale::test
