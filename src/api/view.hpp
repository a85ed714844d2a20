// Views made from other views: one rule behind TensorView::as_rows and rs_tensor_as_rows.
#pragma once

#include <cstdint>

#include "rowscale/tensor.hpp"

namespace rowscale::api {

// The dimensions of `view` in the order dims[0 .. view.rank), the last num_columns of them as columns. A
// view of rank -1 where they are not each named exactly once or no column is left.
TensorView reordered(const TensorView& view, const int32_t* dims, int32_t num_dims,
                     int32_t num_columns);

}  // namespace rowscale::api
