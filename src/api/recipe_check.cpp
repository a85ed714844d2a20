// What no input could satisfy.
#include <fmt/format.h>

#include "api/check.hpp"
#include "api/words.hpp"
#include "numerics/fp.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale {
namespace {

using api::check_word;
using api::invalid;

Status check_words(const Recipe& r) {
  ROWSCALE_RETURN_IF_ERROR(check_word("recipe.granularity", r.granularity));
  ROWSCALE_RETURN_IF_ERROR(check_word("recipe.format", r.format));
  ROWSCALE_RETURN_IF_ERROR(check_word("recipe.scale_source", r.scale_source));
  ROWSCALE_RETURN_IF_ERROR(check_word("recipe.encoding", r.encoding));
  ROWSCALE_RETURN_IF_ERROR(check_word("recipe.layout", r.layout));
  ROWSCALE_RETURN_IF_ERROR(check_word("recipe.floor.kind", r.floor.kind));
  ROWSCALE_RETURN_IF_ERROR(check_word("recipe.bound.kind", r.bound.kind));
  ROWSCALE_RETURN_IF_ERROR(check_word("recipe.quotient", r.quotient));
  ROWSCALE_RETURN_IF_ERROR(check_word("recipe.nan", r.nan));
  return check_word("recipe.profile", r.profile);
}

Status check_sizes(const Recipe& r) {
  if (r.granularity == Granularity::per_group && r.group_size < 1) {
    return invalid(fmt::format("recipe.group_size: expected at least 1, got {}", r.group_size));
  }
  if (r.granularity == Granularity::per_block && (r.block_rows < 1 || r.block_columns < 1)) {
    return invalid(fmt::format("recipe.block_rows, block_columns: expected at least 1, got {}, {}",
                               r.block_rows, r.block_columns));
  }
  return {};
}

Status check_layout(const Recipe& r) {
  if (r.encoding == ScaleEncoding::ue8m0_packed) {
    if (r.granularity == Granularity::per_group) return {};
    return invalid(fmt::format("recipe.encoding: expected ue8m0_packed with per_group only, got {}",
                               api::word_of(r.granularity)));
  }
  const bool is_column =
      r.layout == ScaleLayout::column_major || r.layout == ScaleLayout::column_major_tma;
  if (is_column && r.granularity != Granularity::per_group) {
    return invalid(fmt::format("recipe.layout: expected row_major for {}, got {}",
                               api::word_of(r.granularity), api::word_of(r.layout)));
  }
  if (r.layout == ScaleLayout::block_k4 && r.granularity != Granularity::per_block) {
    return invalid(fmt::format("recipe.layout: expected block_k4 with per_block only, got {}",
                               api::word_of(r.granularity)));
  }
  return {};
}

Status check_values(const Recipe& r) {
  const bool has_value = r.floor.kind == FloorKind::amax || r.floor.kind == FloorKind::scale ||
                         r.floor.kind == FloorKind::if_zero;
  // By bits: neither the sign of a zero nor a trap on NaN gets past.
  if (has_value && numerics::to_bits(r.floor.value) >= numerics::kInfinity32) {
    return invalid(
        fmt::format("recipe.floor.value: expected a finite value >= +0, got {}", r.floor.value));
  }
  if (r.granularity == Granularity::per_column && r.scale_source != ScaleSource::given) {
    return invalid("recipe.scale_source: expected given for per_column, got dynamic");
  }
  return {};
}

}  // namespace

Status check(const Recipe& recipe) {
  ROWSCALE_RETURN_IF_ERROR(check_words(recipe));
  ROWSCALE_RETURN_IF_ERROR(check_sizes(recipe));
  ROWSCALE_RETURN_IF_ERROR(check_layout(recipe));
  return check_values(recipe);
}

}  // namespace rowscale
