// The valid combinations of a recipe's choices.
#pragma once

#include <vector>

#include "rowscale/recipe.hpp"

namespace rowscale::test {

inline constexpr ScaleEncoding kUnpackedEncodings[] = {ScaleEncoding::f32, ScaleEncoding::ue8m0_f32,
                                                       ScaleEncoding::ue8m0};
inline constexpr ScaleLayout kGroupLayouts[] = {ScaleLayout::row_major, ScaleLayout::column_major,
                                                ScaleLayout::column_major_tma};

inline Recipe with(Recipe recipe, ScaleEncoding encoding,
                   ScaleLayout layout = ScaleLayout::row_major) {
  recipe.encoding = encoding;
  recipe.layout = layout;
  return recipe;
}

inline Recipe with(Recipe recipe, ScaleSource source) {
  recipe.scale_source = source;
  return recipe;
}

inline Recipe with(Recipe recipe, Format format) {
  recipe.format = format;
  return recipe;
}

inline Recipe bounded(Recipe recipe, Bound bound) {
  recipe.bound = bound;
  return recipe;
}

inline Recipe by_reciprocal(Recipe recipe) {
  recipe.quotient = Quotient::reciprocal;
  return recipe;
}

// per_group(size) with every encoding and layout.
inline std::vector<Recipe> group_recipes(int64_t size) {
  std::vector<Recipe> recipes;
  for (ScaleEncoding encoding : kUnpackedEncodings) {
    for (ScaleLayout layout : kGroupLayouts) {
      recipes.push_back(with(per_group(size), encoding, layout));
    }
  }
  recipes.push_back(with(per_group(size), ScaleEncoding::ue8m0_packed));
  return recipes;
}

inline std::vector<Recipe> block_recipes(int64_t rows, int64_t columns) {
  std::vector<Recipe> recipes;
  for (ScaleEncoding encoding : kUnpackedEncodings) {
    for (ScaleLayout layout : {ScaleLayout::row_major, ScaleLayout::block_k4}) {
      recipes.push_back(with(per_block(rows, columns), encoding, layout));
    }
  }
  return recipes;
}

// Every granularity with every encoding and layout that it has, e4m3 and dynamic but for
// per_column.
inline std::vector<Recipe> all_recipes(int64_t group, int64_t block_rows, int64_t block_columns) {
  std::vector<Recipe> recipes = group_recipes(group);
  const std::vector<Recipe> blocks = block_recipes(block_rows, block_columns);
  recipes.insert(recipes.end(), blocks.begin(), blocks.end());
  for (ScaleEncoding encoding : kUnpackedEncodings) {
    for (const Recipe& recipe : {per_tensor(), per_token(), per_channel(), per_column()}) {
      recipes.push_back(with(recipe, encoding));
    }
  }
  return recipes;
}

}  // namespace rowscale::test
