// The scale matrix in memory: one class that knows every layout and encoding, on host and device.
// No index formula for scales stands anywhere else; docs/scale_layouts.md draws what is computed
// here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/fp.hpp"
#include "numerics/ue8m0.hpp"
#include "plan/divider.hpp"
#include "plan/memory.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::plan {

// Which elements share a scale, as a grid over a batch of [rows, columns] data.
struct ScaleGrid {
  ScaleGrid() = default;
  ScaleGrid(const Recipe& recipe, int64_t rows_per_batch, int64_t columns);

  // Where the scale of an element stands. Rows count through all batches, as in
  // RowView.
  struct Position {
    int64_t batch, row, column;
  };
  [[nodiscard]] ROWSCALE_HD Position at(int64_t data_row, int64_t data_column) const {
    Position position = of_row(data_row);
    position.column = quotient(data_column, unit_columns);
    return position;
  }
  // Of a row's first scale.
  [[nodiscard]] ROWSCALE_HD Position of_row(int64_t data_row) const {
    if (data_row < data_rows) return {0, quotient(data_row, unit_rows), 0};
    const QuotientRemainder in_batch = divide(data_row, data_rows);
    return {in_batch.quotient, quotient(in_batch.remainder, unit_rows), 0};
  }

  int64_t data_rows = 1;     // of a batch, at least 1
  int64_t unit_rows = 1;     // rows of data a scale covers, at least 1
  int64_t unit_columns = 1;  // columns of data a scale covers, at least 1
  int64_t rows = 0;          // of the scale matrix of a batch
  int64_t columns = 0;
  bool one_for_all = false;  // per_tensor, per_column: the matrix is the same for every batch

 private:
  // Units of one and units that hold everything are the common ones.
  static ROWSCALE_HD int64_t quotient(int64_t n, int64_t unit) {
    return unit == 1 ? n : (n < unit ? 0 : divide(n, unit).quotient);
  }
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

inline constexpr int64_t kPackedGroups = 4;  // exponent bytes in a word

// Whether a call's rows are masked: pad rows of masked scales are not written.
enum class RowMasks { none, counted };

// The matrices of all batches. Storage is whatever the recipe's layout says (docs/numerics.md
// section 6); data may have any alignment.
class ScaleView {
 public:
  ScaleView() = default;
  ScaleView(const Recipe& recipe, const ScaleGrid& grid, void* data);

  // The scale as the quotient's or the product's operand, in fp32.
  [[nodiscard]] ROWSCALE_HD float load(int64_t batch, int64_t row, int64_t column) const {
    switch (encoding_) {
      case ScaleEncoding::ue8m0:
        return numerics::ue8m0_decode(load_as<uint8_t>(address(batch, row, column)));
      case ScaleEncoding::ue8m0_packed:
        return numerics::ue8m0_decode(load_as<uint8_t>(byte_address(batch, row, column)));
      default:
        return load_as<float>(address(batch, row, column));
    }
  }

  // UE8M0 encodings take values of theirs (numerics::is_ue8m0_value).
  ROWSCALE_HD void store(int64_t batch, int64_t row, int64_t column, float value) const {
    switch (encoding_) {
      case ScaleEncoding::ue8m0:
        store_as(address(batch, row, column), numerics::ue8m0_of_value(value));
        return;
      case ScaleEncoding::ue8m0_packed:
        store_as(byte_address(batch, row, column), numerics::ue8m0_of_value(value));
        return;
      default:
        store_as(address(batch, row, column), value);
    }
  }
  // `count` scales of a row.
  void store(int64_t batch, int64_t row, int64_t column, const float* values, int64_t count) const;

  // Zeros beside the scales of a row: the absent groups of a packed row's last word, the pad
  // columns of block_k4 (none after a batch's last row: nothing is written beyond its last scale).
  ROWSCALE_HD void write_row_pads(int64_t batch, int64_t row) const {
    if (encoding_ == ScaleEncoding::ue8m0_packed) {
      for (int64_t group = scales_; group < strides_.columns * kPackedGroups; ++group) {
        store_as(byte_address(batch, row, group), uint8_t{0});
      }
    } else if (strides_.column == 1 && row + 1 < rows_) {
      // Nothing unless block_k4.
      for (int64_t column = strides_.columns; column < strides_.row; ++column) {
        write_zero(batch, row, column);
      }
    }
  }

  // Zeros in the pad rows of column_major_tma and packed scales, those below the end of a batch's
  // last column.
  ROWSCALE_HD void write_pad_rows(int64_t batch) const {
    for (int64_t column = 0; column < strides_.columns; ++column) {
      write_column_pads(batch, column);
    }
  }

  // One thread a scale, instead of the two above: the pads that follow this scale.
  ROWSCALE_HD void write_pads_after(int64_t batch, int64_t row, int64_t column,
                                    RowMasks masks) const {
    if (column + 1 == scales_) write_row_pads(batch, row);
    if (row + 1 == rows_ && masks == RowMasks::none) {
      const bool is_packed = encoding_ == ScaleEncoding::ue8m0_packed;
      if (!is_packed) {
        write_column_pads(batch, column);
      } else if (column % kPackedGroups == 0) {
        write_column_pads(batch, column / kPackedGroups);
      }
    }
  }

 private:
  // `column` counts elements: words of packed scales.
  [[nodiscard]] ROWSCALE_HD std::byte* address(int64_t batch, int64_t row, int64_t column) const {
    return data_ + (batch * strides_.batch + row * strides_.row + column * strides_.column) *
                       element_bytes_;
  }
  // The exponent byte of a packed group: the lowest byte of a word is the first.
  [[nodiscard]] ROWSCALE_HD std::byte* byte_address(int64_t batch, int64_t row,
                                                    int64_t group) const {
    return address(batch, row, group / kPackedGroups) + group % kPackedGroups;
  }
  ROWSCALE_HD void write_zero(int64_t batch, int64_t row, int64_t column) const {
    if (element_bytes_ == 1) {
      store_as(address(batch, row, column), uint8_t{0});
    } else {
      store_as(address(batch, row, column), uint32_t{0});
    }
  }
  ROWSCALE_HD void write_column_pads(int64_t batch, int64_t column) const {
    if (strides_.row != 1 || column + 1 >= strides_.columns) return;
    for (int64_t row = rows_; row < strides_.column; ++row) write_zero(batch, row, column);
  }

  std::byte* data_ = nullptr;
  ScaleEncoding encoding_ = ScaleEncoding::f32;
  int64_t element_bytes_ = 4;
  int64_t rows_ = 0;
  int64_t scales_ = 0;  // scales a row
  ScaleStrides strides_ = {};
};

}  // namespace rowscale::plan
