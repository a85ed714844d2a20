#include <fmt/format.h>

#include <algorithm>

#include "api/check.hpp"
#include "plan/scale_view.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale {
namespace {

using api::invalid;

DType scale_dtype(ScaleEncoding encoding) {
  switch (encoding) {
    case ScaleEncoding::ue8m0:
      return DType::ue8m0;
    case ScaleEncoding::ue8m0_packed:
      return DType::i32;
    default:
      return DType::f32;
  }
}

}  // namespace

Status scale_spec(const TensorView& codes, const Recipe& recipe, ScaleSpec* out) {
  if (out == nullptr) return invalid("spec: expected a place for the result, got null");
  ROWSCALE_RETURN_IF_ERROR(check(recipe));
  ROWSCALE_RETURN_IF_ERROR(api::check_shape({"codes", codes}));
  const int row_rank = codes.rank - codes.column_rank;
  const int64_t rows = row_rank > 0 ? codes.shape[row_rank - 1] : 1;
  const plan::ScaleGrid grid(recipe, rows, codes.columns());
  const plan::ScaleStrides strides = plan::scale_strides(recipe, grid);

  ScaleSpec spec;
  spec.dtype = scale_dtype(recipe.encoding);
  int64_t batches = 1;
  const auto append = [&spec](int64_t size, int64_t stride) {
    spec.shape[spec.rank] = size;
    spec.strides[spec.rank] = stride;
    ++spec.rank;
  };
  if (recipe.granularity == Granularity::per_tensor) {
    append(1, 1);
  } else if (grid.one_for_all) {
    append(1, strides.row);
    append(strides.columns, strides.column);
  } else {
    // Batches lie one after the other, the last dimension before the rows innermost.
    for (int i = row_rank - 2; i >= 0; --i) {
      spec.shape[i] = codes.shape[i];
      spec.strides[i] = strides.batch * batches;
      batches *= codes.shape[i];
    }
    spec.rank = std::max(row_rank - 1, 0);
    if (row_rank > 0) append(grid.rows, strides.row);
    append(strides.columns, strides.column);
  }
  const bool is_empty =
      std::any_of(spec.shape, spec.shape + spec.rank, [](int64_t size) { return size == 0; });
  if (!is_empty) {
    spec.storage = (batches - 1) * strides.batch + (grid.rows - 1) * strides.row +
                   (strides.columns - 1) * strides.column + 1;
    spec.allocation = batches * strides.batch;
  }
  *out = spec;
  return {};
}

TensorView ScaleSpec::view(void* data, Device device) const {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.device = device;
  view.rank = rank;
  std::copy(shape, shape + rank, view.shape);
  std::copy(strides, strides + rank, view.strides);
  return view;
}

TensorView ScaleSpec::view(const void* data, Device device) const {
  return view(const_cast<void*>(data), device);
}

}  // namespace rowscale
