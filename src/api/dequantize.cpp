#include "api/check.hpp"
#include "api/dispatch.hpp"
#include "rowscale/quantize.hpp"

namespace rowscale {

using api::Named;

Status dequantize(const TensorView& codes_view, const TensorView& scales_view, const Recipe& recipe,
                  const TensorView& y_view, const Exec& exec) {
  const Named codes{"codes", codes_view, api::Role::input};
  const Named scales{"scales", scales_view, api::Role::scales};
  const Named y{"y", y_view};
  ROWSCALE_RETURN_IF_ERROR(check(recipe));
  ROWSCALE_RETURN_IF_ERROR(api::check_codes(codes, codes, codes_view.columns(), recipe));
  ROWSCALE_RETURN_IF_ERROR(
      api::check_scales(scales, codes_view, recipe, api::elements_for(codes_view)));
  ROWSCALE_RETURN_IF_ERROR(api::check_float_rows(y));
  ROWSCALE_RETURN_IF_ERROR(api::check_same_rows(y, codes, codes_view.columns()));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({codes, scales, y}, exec));
  ROWSCALE_RETURN_IF_ERROR(api::check_disjoint({y}, {codes, scales}));

  return api::run_dequantize(codes_view, scales_view, recipe, y_view, exec);
}

}  // namespace rowscale
