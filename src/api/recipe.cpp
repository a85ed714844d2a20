#include "rowscale/recipe.hpp"

#include "numerics/fp8.hpp"
#include "numerics/scale_rule.hpp"

namespace rowscale {
namespace {

// 1 / (MAX * 512): the scale that a row with an amax of 2^-9 has.
float smallest_scale(Format format) {
  return format == Format::e4m3 ? numerics::kSmallestScale<numerics::E4m3>
                                : numerics::kSmallestScale<numerics::E5m2>;
}

Floor standard_floor(const Recipe& recipe) {
  if (recipe.scale_source == ScaleSource::given) return {FloorKind::none, 0.0F};
  switch (recipe.granularity) {
    case Granularity::per_tensor:
      return {recipe.profile == Profile::vllm ? FloorKind::if_zero : FloorKind::scale,
              smallest_scale(recipe.format)};
    case Granularity::per_token:
      return {FloorKind::scale, smallest_scale(recipe.format)};
    case Granularity::per_channel:
      if (recipe.profile == Profile::vllm) return {FloorKind::scale, smallest_scale(recipe.format)};
      return {FloorKind::if_zero, 1.0F};
    case Granularity::per_group:
    case Granularity::per_block:
      return {FloorKind::amax, numerics::kSmallestAmax};
    case Granularity::per_column:
      break;
  }
  return {FloorKind::none, 0.0F};
}

Quotient standard_quotient(const Recipe& recipe) {
  const bool is_static =
      recipe.scale_source == ScaleSource::given || recipe.granularity == Granularity::per_tensor;
  return recipe.profile == Profile::vllm && is_static ? Quotient::reciprocal : Quotient::divide;
}

NanRule standard_nan(const Recipe& recipe) {
  if (recipe.profile == Profile::rowscale) return NanRule::propagate;
  const bool is_grouped =
      recipe.granularity == Granularity::per_group || recipe.granularity == Granularity::per_block;
  return is_grouped && recipe.scale_source == ScaleSource::dynamic ? NanRule::clamp_low
                                                                   : NanRule::clamp_high;
}

Recipe of(Granularity granularity) {
  Recipe recipe;
  recipe.granularity = granularity;
  return recipe;
}

}  // namespace

Recipe per_tensor() {
  return of(Granularity::per_tensor);
}
Recipe per_token() {
  return of(Granularity::per_token);
}
Recipe per_channel() {
  return of(Granularity::per_channel);
}

Recipe per_column() {
  Recipe recipe = of(Granularity::per_column);
  recipe.scale_source = ScaleSource::given;
  return recipe;
}

Recipe per_group(int64_t size) {
  Recipe recipe = of(Granularity::per_group);
  recipe.group_size = size;
  return recipe;
}

Recipe per_block(int64_t rows, int64_t columns) {
  Recipe recipe = of(Granularity::per_block);
  recipe.block_rows = rows;
  recipe.block_columns = columns;
  return recipe;
}

Recipe resolve(const Recipe& recipe) {
  Recipe resolved = recipe;
  if (recipe.scale_source == ScaleSource::given) {
    resolved.bound = {};
    resolved.floor = {FloorKind::none, 0.0F};
  } else if (recipe.floor.kind == FloorKind::standard) {
    resolved.floor = standard_floor(recipe);
  }
  if (resolved.floor.kind == FloorKind::none) resolved.floor.value = 0.0F;
  if (resolved.bound.kind == BoundKind::none) resolved.bound.value = 0.0F;
  if (recipe.quotient == Quotient::standard) resolved.quotient = standard_quotient(recipe);
  if (recipe.nan == NanRule::standard) resolved.nan = standard_nan(recipe);
  if (recipe.granularity != Granularity::per_group) resolved.group_size = 0;
  if (recipe.granularity != Granularity::per_block) {
    resolved.block_rows = 0;
    resolved.block_columns = 0;
  }
  // Packed scales have one layout.
  if (recipe.encoding == ScaleEncoding::ue8m0_packed) resolved.layout = ScaleLayout::row_major;
  return resolved;
}

}  // namespace rowscale
