#include "rowscale/mla.hpp"

#include <fmt/format.h>

#include "api/dispatch.hpp"
#include "api/producer_check.hpp"
#include "plan/mla.hpp"

namespace rowscale {
namespace {

using api::invalid;
using api::is_absent;
using api::Named;

// x and the weights, whose lengths are the widths of its parts.
Status check_parts(Named x, Named q_weight, Named kv_weight) {
  ROWSCALE_RETURN_IF_ERROR(api::check_float_rows(x));
  if (x.view.column_rank != 1) {
    return invalid(fmt::format("x: expected a column_rank of 1, got {}", x.view.column_rank));
  }
  for (const Named& weight : {q_weight, kv_weight}) {
    ROWSCALE_RETURN_IF_ERROR(api::check_float_rows(weight, api::elements_for(x.view)));
    if (weight.view.rank != 1) {
      return invalid(
          fmt::format("{}: expected one dimension, got {}", weight.name, to_string(weight.view)));
    }
  }
  const int64_t normed = q_weight.view.columns() + kv_weight.view.columns();
  if (x.view.columns() >= normed) return {};
  return invalid(fmt::format(
      "x: expected at least {} columns, as many as norm.q_weight and norm.kv_weight have, got {}",
      normed, x.view.columns()));
}

// One part's codes and scales.
Status check_quantized(const char* recipe_name, const Recipe& recipe, Named x, Named codes,
                       Named scales, int64_t columns) {
  ROWSCALE_RETURN_IF_ERROR(api::check_fused_recipe(recipe_name, recipe));
  ROWSCALE_RETURN_IF_ERROR(api::check_own_profile(recipe_name, recipe));
  ROWSCALE_RETURN_IF_ERROR(api::check_codes(codes, x, columns, recipe));
  return api::check_scales(scales, codes.view, recipe, api::scales_for(x.view, recipe));
}

Status check_optional_row(Named row, Named x, int64_t columns) {
  return is_absent(row.view) ? Status() : api::check_row(row, x, columns);
}

}  // namespace

Status mla_norm_quantize(const TensorView& x_view, const MlaNorm& norm, const Recipe& q_recipe,
                         const Recipe& kv_recipe, const MlaOutputs& outputs, const Exec& exec) {
  const plan::Mla mla = {x_view, norm, q_recipe, kv_recipe, outputs};
  const TensorView none;
  const bool q_is_given = q_recipe.scale_source == ScaleSource::given;
  const bool kv_is_given = kv_recipe.scale_source == ScaleSource::given;
  const Named x{"x", x_view, api::Role::input};
  const Named q_weight{"norm.q_weight", norm.q_weight};
  const Named kv_weight{"norm.kv_weight", norm.kv_weight};
  const Named q_codes{"outputs.q_codes", outputs.q_codes};
  const Named q_scales{"outputs.q_scales", outputs.q_scales, api::Role::scales};
  const Named q_row{"outputs.q_row", outputs.q_row};
  const Named kv{"outputs.kv", outputs.kv};
  const Named kv_codes{"outputs.kv_codes", outputs.kv_codes};
  const Named kv_scales{"outputs.kv_scales", outputs.kv_scales, api::Role::scales};
  const Named rope{"outputs.rope", outputs.rope};
  ROWSCALE_RETURN_IF_ERROR(check_parts(x, q_weight, kv_weight));
  ROWSCALE_RETURN_IF_ERROR(
      check_quantized("q_recipe", q_recipe, x, q_codes, q_scales, mla.q_rank()));
  ROWSCALE_RETURN_IF_ERROR(check_optional_row(q_row, x, mla.q_rank()));
  ROWSCALE_RETURN_IF_ERROR(check_optional_row(kv, x, mla.kv_rank()));
  if (!is_absent(outputs.kv_codes)) {
    ROWSCALE_RETURN_IF_ERROR(
        check_quantized("kv_recipe", kv_recipe, x, kv_codes, kv_scales, mla.kv_rank()));
  } else if (is_absent(outputs.kv)) {
    return invalid("outputs.kv: expected kv or kv_codes, got neither");
  } else if (!is_absent(outputs.kv_scales)) {
    return invalid("outputs.kv_scales: expected none without kv_codes, got " +
                   to_string(outputs.kv_scales));
  }
  if (!is_absent(outputs.rope) && mla.rope_width() == 0) {
    return invalid("outputs.rope: expected none, as x has no columns behind q and kv, got " +
                   to_string(outputs.rope));
  }
  ROWSCALE_RETURN_IF_ERROR(check_optional_row(rope, x, mla.rope_width()));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec(
      {x, q_weight, kv_weight, q_codes, q_scales, q_row, kv, kv_codes, kv_scales, rope}, exec));
  // Given scales are inputs.
  const auto written = [&](Named scales, bool is_given) {
    return Named{scales.name, is_given ? none : scales.view, scales.role};
  };
  const auto read = [&](Named scales, bool is_given) {
    return Named{scales.name, is_given ? scales.view : none, scales.role};
  };
  ROWSCALE_RETURN_IF_ERROR(api::check_disjoint(
      {q_codes, kv_codes, written(q_scales, q_is_given), written(kv_scales, kv_is_given), q_row, kv,
       rope},
      {x, q_weight, kv_weight, read(q_scales, q_is_given), read(kv_scales, kv_is_given)}));
  return api::run_mla(mla, exec);
}

}  // namespace rowscale
