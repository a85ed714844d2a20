// The scale matrix in memory: one class that knows every layout and encoding. No index formula for
// scales stands anywhere else; docs/scale_layouts.md draws what is computed here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rowscale/recipe.hpp"

namespace rowscale::plan {

// Which elements share a scale, as a grid over a batch of [rows, columns] data.
struct ScaleGrid {
  ScaleGrid(const Recipe& recipe, int64_t rows_per_batch, int64_t columns);

  // Where the scale of an element stands. Rows count through all batches, as in
  // RowView.
  struct Position {
    int64_t batch, row, column;
  };
  [[nodiscard]] Position at(int64_t data_row, int64_t data_column) const {
    const int64_t batch = data_row / data_rows;
    return {batch, data_row % data_rows / unit_rows, data_column / unit_columns};
  }

  int64_t data_rows;     // of a batch, at least 1
  int64_t unit_rows;     // rows of data a scale covers, at least 1
  int64_t unit_columns;  // columns of data a scale covers, at least 1
  int64_t rows;          // of the scale matrix of a batch
  int64_t columns;
  bool one_for_all;  // per_tensor, per_column: the matrix is the same for every batch
};

// How the matrix of one batch lies in memory, in elements of its dtype. `columns` counts elements:
// for packed scales the words of a row.
struct ScaleStrides {
  int64_t columns;
  int64_t batch;
  int64_t row;
  int64_t column;
};
ScaleStrides scale_strides(const Recipe& recipe, const ScaleGrid& grid);

// The matrices of all batches. Storage is whatever the recipe's layout says (docs/numerics.md
// section 6); data may have any alignment.
class ScaleView {
 public:
  ScaleView(const Recipe& recipe, const ScaleGrid& grid, void* data);

  // The scale as the quotient's or the product's operand, in fp32.
  [[nodiscard]] float load(int64_t batch, int64_t row, int64_t column) const;
  // `count` scales of a row; UE8M0 encodings take values of theirs (numerics::is_ue8m0_value).
  void store(int64_t batch, int64_t row, int64_t column, const float* values, int64_t count) const;

  // Zeros beside the scales of a row: the absent groups of a packed row's last word, the pad
  // columns of block_k4 (none after a batch's last row: nothing is written beyond its last scale).
  void write_row_pads(int64_t batch, int64_t row) const;
  // Zeros in the pad rows of column_major_tma and packed scales, those below the end of a batch's
  // last column.
  void write_pad_rows(int64_t batch) const;

 private:
  [[nodiscard]] std::byte* address(int64_t batch, int64_t row, int64_t column) const;

  std::byte* data_;
  ScaleEncoding encoding_;
  int64_t element_bytes_;
  int64_t rows_;
  int64_t scales_;  // scales a row
  ScaleStrides strides_;
};

}  // namespace rowscale::plan
