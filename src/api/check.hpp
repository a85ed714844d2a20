// Every rule about arguments: what is refused and in which words. Checks read shapes, strides and
// addresses, never data.
#pragma once

#include <initializer_list>

#include "rowscale/exec.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::api {

// A tensor argument and its name in messages.
struct Named {
  const char* name;
  const TensorView& view;
};

// Returns from the calling function unless the expression is ok.
#define ROWSCALE_RETURN_IF_ERROR(expression)                   \
  do {                                                         \
    if (Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

Status invalid(std::string message);

// A view that can be read as rows: rank, sizes that do not overflow, data, contiguous columns.
Status check_data(Named tensor);
Status check_dtype(Named tensor, std::initializer_list<DType> allowed);
// f32, f16 or bf16 rows.
Status check_float_rows(Named tensor);
// The row dimensions of `reference` and `columns` columns.
Status check_same_rows(Named tensor, Named reference, int64_t columns);
// Codes of the recipe's format in the shape of `reference` with `columns` columns.
Status check_codes(Named codes, Named reference, int64_t columns, const Recipe& recipe);
// The one checker of scale layouts: dtype, shape, then strides, as scale_spec() gives them.
Status check_scales(Named scales, const TensorView& codes, const Recipe& recipe);
// No two elements share memory.
Status check_no_self_overlap(Named output);
Status check_no_overlap(Named output, Named other);
// All tensors on the device of the first, and a kernel for that device; the target is there.
Status check_exec(std::initializer_list<Named> tensors, const Exec& exec);

}  // namespace rowscale::api
