#include "api/check.hpp"
#include "api/dispatch.hpp"
#include "rowscale/quantize.hpp"

namespace rowscale {
namespace {

using api::Named;

// Codes may be replaced in place: element by element, each read before it is written.
bool is_same_memory(const TensorView& a, const TensorView& b) {
  if (a.data != b.data || a.rank != b.rank || a.column_rank != b.column_rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    const bool stride_counts = a.shape[i] > 1;
    if (a.shape[i] != b.shape[i] || (stride_counts && a.strides[i] != b.strides[i])) return false;
  }
  return true;
}

}  // namespace

Status requantize(const TensorView& codes_in_view, const TensorView& scales_in_view,
                  const Recipe& recipe_in, const TensorView& codes_out_view,
                  const TensorView& scales_out_view, const Recipe& recipe_out, const Exec& exec) {
  const Named codes_in{"codes_in", codes_in_view, api::Role::input};
  const Named scales_in{"scales_in", scales_in_view, api::Role::scales};
  const Named codes_out{"codes_out", codes_out_view};
  const Named scales_out{"scales_out", scales_out_view, api::Role::scales};
  const int64_t columns = codes_in_view.columns();
  ROWSCALE_RETURN_IF_ERROR(check(recipe_in));
  ROWSCALE_RETURN_IF_ERROR(check(recipe_out));
  ROWSCALE_RETURN_IF_ERROR(api::check_codes(codes_in, codes_in, columns, recipe_in));
  ROWSCALE_RETURN_IF_ERROR(
      api::check_scales(scales_in, codes_in_view, recipe_in, api::elements_for(codes_in_view)));
  ROWSCALE_RETURN_IF_ERROR(api::check_codes(codes_out, codes_in, columns, recipe_out));
  ROWSCALE_RETURN_IF_ERROR(api::check_scales(scales_out, codes_out_view, recipe_out,
                                             api::scales_for(codes_in_view, recipe_out)));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({codes_in, scales_in, codes_out, scales_out}, exec));
  ROWSCALE_RETURN_IF_ERROR(
      api::check_disjoint_codes(codes_out, scales_out, recipe_out, {scales_in}));
  if (!is_same_memory(codes_in_view, codes_out_view)) {
    ROWSCALE_RETURN_IF_ERROR(api::check_disjoint({codes_out}, {codes_in}));
  }
  if (recipe_out.scale_source == ScaleSource::dynamic) {
    ROWSCALE_RETURN_IF_ERROR(api::check_disjoint({scales_out}, {codes_in}));
  }

  plan::Source source;
  source.kind = plan::SourceKind::dequantized;
  source.x = codes_in_view;
  source.scales = scales_in_view;
  source.recipe = resolve(recipe_in);
  return api::run_quantize(source, recipe_out, codes_out_view, scales_out_view, exec);
}

size_t requantize_workspace_bytes(const TensorView& codes_in, const Recipe& recipe_out) {
  return api::workspace_bytes(codes_in, recipe_out);
}

}  // namespace rowscale
