// Every rule about arguments: what is refused and in which words. Checks read shapes, strides and
// addresses, never data.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "rowscale/exec.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::api {

// rows: of data, whose gaps between rows may belong to another tensor. input: the same, and those
// that its row_counts name exist; the row_counts of every other tensor are not looked at. scales:
// pads are written too, so everything from the first to the last element counts.
enum class Role { rows, input, scales };

// A tensor argument and its name in messages.
struct Named {
  const char* name;
  const TensorView& view;
  Role role = Role::rows;
};

// Returns from the calling function unless the expression is ok.
#define ROWSCALE_RETURN_IF_ERROR(expression)                          \
  do {                                                                \
    if (Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

Status invalid(std::string message);

// Whether a call looks at the elements of a tensor: without rows it needs none that it only reads,
// and their data may be null.
enum class Elements { used, unused };
inline Elements elements_for(const TensorView& x) {
  return x.rows() == 0 ? Elements::unused : Elements::used;
}
// Scales that are written are used: the one of a whole tensor is, of no rows too.
inline Elements scales_for(const TensorView& x, const Recipe& recipe) {
  return recipe.scale_source == ScaleSource::given ? elements_for(x) : Elements::used;
}

// Rank, column_rank, and sizes: what even the shape of an absent tensor must have.
Status check_shape(Named tensor);
// Shape, addresses, contiguous columns; data may be missing.
Status check_layout(Named tensor);
// A view that can be read as rows: layout, data, at least one column.
Status check_data(Named tensor, Elements elements = Elements::used);
Status check_dtype(Named tensor, std::initializer_list<DType> allowed);
// f32, f16 or bf16 rows.
Status check_float_rows(Named tensor, Elements elements = Elements::used);
// The row dimensions of `reference` and `columns` columns.
Status check_same_rows(Named tensor, Named reference, int64_t columns);
// Codes of the recipe's format in the shape of `reference` with `columns` columns.
Status check_codes(Named codes, Named reference, int64_t columns, const Recipe& recipe);
// The one checker of scale layouts: dtype, shape, then strides, as scale_spec() gives them. `codes`
// has a checked shape.
Status check_scales(Named scales, const TensorView& codes, const Recipe& recipe,
                    Elements elements = Elements::used);
// All tensors on the device of the first; the fields of exec are in range.
Status check_exec(std::initializer_list<Named> tensors, const Exec& exec);

// The last check of a call: every tensor has passed the others. No output shares memory with an
// input, its row counts, another output or itself. Absent tensors are skipped.
Status check_disjoint(std::initializer_list<Named> outputs, std::initializer_list<Named> inputs);

// The same with codes and scales as outputs; given scales are an input.
Status check_disjoint_codes(Named codes, Named scales, const Recipe& recipe,
                            std::initializer_list<Named> inputs);

// An optional tensor that was not given: a default TensorView.
inline bool is_absent(const TensorView& view) {
  return view.data == nullptr && view.rank == 0;
}

}  // namespace rowscale::api
