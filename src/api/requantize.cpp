#include <algorithm>

#include "api/check.hpp"
#include "cpu/operators.hpp"
#include "cpu/target.hpp"
#include "rowscale/quantize.hpp"

namespace rowscale {
namespace {

using api::Named;

// Codes may be replaced in place: element by element, each read before it is written.
bool is_same_memory(const TensorView& a, const TensorView& b) {
  return a.data == b.data && a.rank == b.rank && a.column_rank == b.column_rank &&
         std::equal(a.shape, a.shape + a.rank, b.shape) &&
         std::equal(a.strides, a.strides + a.rank, b.strides);
}

}  // namespace

Status requantize(const TensorView& codes_in_view, const TensorView& scales_in_view,
                  const Recipe& recipe_in, const TensorView& codes_out_view,
                  const TensorView& scales_out_view, const Recipe& recipe_out, const Exec& exec) {
  const Named codes_in{"codes_in", codes_in_view};
  const Named scales_in{"scales_in", scales_in_view};
  const Named codes_out{"codes_out", codes_out_view};
  const Named scales_out{"scales_out", scales_out_view};
  const int64_t columns = codes_in_view.columns();
  ROWSCALE_RETURN_IF_ERROR(check(recipe_in));
  ROWSCALE_RETURN_IF_ERROR(check(recipe_out));
  ROWSCALE_RETURN_IF_ERROR(api::check_codes(codes_in, codes_in, columns, recipe_in));
  ROWSCALE_RETURN_IF_ERROR(api::check_scales(scales_in, codes_in_view, recipe_in));
  ROWSCALE_RETURN_IF_ERROR(api::check_codes(codes_out, codes_in, columns, recipe_out));
  ROWSCALE_RETURN_IF_ERROR(api::check_scales(scales_out, codes_out_view, recipe_out));
  ROWSCALE_RETURN_IF_ERROR(api::check_exec({codes_in, scales_in, codes_out, scales_out}, exec));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_self_overlap(codes_out));
  if (!is_same_memory(codes_in_view, codes_out_view)) {
    ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(codes_out, codes_in));
  }
  ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(codes_out, scales_in));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(codes_out, scales_out));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(scales_out, scales_in));
  ROWSCALE_RETURN_IF_ERROR(api::check_no_overlap(scales_out, codes_in));

  const cpu::Kernels& kernels = cpu::kernels(cpu::resolve_target(exec.target));
  const cpu::DequantizedSource source(kernels, codes_in_view, scales_in_view, resolve(recipe_in));
  cpu::quantize(source, resolve(recipe_out), codes_out_view, scales_out_view, exec);
  return {};
}

}  // namespace rowscale
