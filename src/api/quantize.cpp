#include "rowscale/quantize.hpp"

#include "api/check.hpp"
#include "api/dispatch.hpp"

namespace rowscale {

using api::Named;

Status quantize(const TensorView& x_view, const Recipe& recipe, const TensorView& codes_view,
                const TensorView& scales_view, const Exec& exec) {
  const Named x{"x", x_view, api::Role::input};
  const Named codes{"codes", codes_view};
  const Named scales{"scales", scales_view, api::Role::scales};
  ROWSCALE_RETURN_IF_ERROR(check(recipe));
  ROWSCALE_RETURN_IF_ERROR(api::check_float_rows(x));
  ROWSCALE_RETURN_IF_ERROR(api::check_codes(codes, x, x_view.columns(), recipe));
  ROWSCALE_RETURN_IF_ERROR(
      api::check_scales(scales, codes_view, recipe, api::scales_for(x_view, recipe)));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({x, codes, scales}, exec));
  ROWSCALE_RETURN_IF_ERROR(api::check_disjoint_codes(codes, scales, recipe, {x}));

  plan::Source source;
  source.x = x_view;
  return api::run_quantize(source, recipe, codes_view, scales_view, exec);
}

size_t quantize_workspace_bytes(const TensorView& x, const Recipe& recipe) {
  return api::workspace_bytes(x, recipe);
}

}  // namespace rowscale
