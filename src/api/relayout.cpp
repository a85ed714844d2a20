#include <fmt/format.h>

#include "api/check.hpp"
#include "api/dispatch.hpp"
#include "api/words.hpp"
#include "rowscale/quantize.hpp"

namespace rowscale {
namespace {

using api::invalid;
using api::Named;
using api::word_of;

Status check_recipes(const Recipe& in, const Recipe& out) {
  ROWSCALE_RETURN_IF_ERROR(check(in));
  ROWSCALE_RETURN_IF_ERROR(check(out));
  const Recipe a = resolve(in);
  const Recipe b = resolve(out);
  if (a.granularity != b.granularity || a.group_size != b.group_size ||
      a.block_rows != b.block_rows || a.block_columns != b.block_columns) {
    return invalid(fmt::format("recipe_out: expected the granularity of recipe_in ({}), got {}",
                               to_string(in), to_string(out)));
  }
  if (in.encoding == ScaleEncoding::f32 && out.encoding != ScaleEncoding::f32) {
    return invalid(
        fmt::format("recipe_out.encoding: expected f32, as recipe_in has, got {}: a "
                    "scale that changes needs other codes, use requantize",
                    word_of(out.encoding)));
  }
  return {};
}

}  // namespace

Status relayout_scales(const TensorView& codes, const TensorView& scales_in_view,
                       const Recipe& recipe_in, const TensorView& scales_out_view,
                       const Recipe& recipe_out, const Exec& exec) {
  const Named scales_in{"scales_in", scales_in_view, api::Role::scales};
  const Named scales_out{"scales_out", scales_out_view, api::Role::scales};
  ROWSCALE_RETURN_IF_ERROR(check_recipes(recipe_in, recipe_out));
  ROWSCALE_RETURN_IF_ERROR(api::check_shape({"codes", codes}));
  ROWSCALE_RETURN_IF_ERROR(api::check_scales(scales_in, codes, recipe_in));
  ROWSCALE_RETURN_IF_ERROR(api::check_scales(scales_out, codes, recipe_out));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({scales_in, scales_out}, exec));
  TensorView counts_only = codes;  // its data are not used, wherever they are
  counts_only.data = nullptr;
  const Named counts{"codes", counts_only, api::Role::input};
  if (codes.row_counts != nullptr) {  // the one thing of it that is read
    ROWSCALE_RETURN_IF_ERROR(api::check_exec({scales_in, counts}, exec));
  }
  ROWSCALE_RETURN_IF_ERROR(api::check_disjoint({scales_out}, {scales_in, counts}));

  return api::run_relayout(codes, scales_in_view, recipe_in, scales_out_view, recipe_out, exec);
}

}  // namespace rowscale
