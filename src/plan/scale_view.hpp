// The scale matrix in memory: one class that knows every layout and encoding, on host and device.
// No index formula for scales stands anywhere else; docs/scale_layouts.md draws what is computed
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

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

// Whether a call's rows are masked: pad rows of masked scales are not written.
enum class RowMasks { none, counted };

inline constexpr int kPackedGroups = 4;  // exponent bytes in a word

// The matrices of all batches. Storage is whatever the recipe's layout says (docs/numerics.md
// section 6). Index is int64_t, with data of any alignment, or int32_t: then offsets are below 2^31
// and data are naturally aligned, which a kernel need not ask for every scale (is_narrow).
template <class Index>
class BasicScaleView {
 public:
  BasicScaleView() = default;
  BasicScaleView(const Recipe& recipe, const ScaleGrid& grid, void* data)
      : data_(static_cast<std::byte*>(data)),
        encoding_(recipe.encoding),
        element_bytes_(recipe.encoding == ScaleEncoding::ue8m0 ? 1 : 4),
        rows_(static_cast<Index>(grid.rows)),
        scales_(static_cast<Index>(grid.columns)) {
    const ScaleStrides strides = scale_strides(recipe, grid);
    columns_ = static_cast<Index>(strides.columns);
    batch_stride_ = grid.one_for_all ? 0 : static_cast<Index>(strides.batch);
    row_stride_ = static_cast<Index>(strides.row);
    column_stride_ = static_cast<Index>(strides.column);
    has_row_pads_ = encoding_ == ScaleEncoding::ue8m0_packed
                        ? scales_ != columns_ * kPackedGroups
                        : column_stride_ == 1 && rows_ > 1 && row_stride_ > columns_;
    has_pad_rows_ = row_stride_ == 1 && columns_ > 1 && column_stride_ > rows_;
  }

  // The scale as the quotient's or the product's operand, in fp32.
  [[nodiscard]] ROWSCALE_HD float load(Index batch, Index row, Index column) const {
    if (encoding_ == ScaleEncoding::ue8m0) {
      return numerics::ue8m0_decode(load_as<uint8_t>(address(batch, row, column)));
    }
    if (encoding_ == ScaleEncoding::ue8m0_packed) {
      return numerics::ue8m0_decode(load_as<uint8_t>(byte_address(batch, row, column)));
    }
    return load_as<float, kAlignment>(address(batch, row, column));
  }

  // UE8M0 encodings take values of theirs (numerics::is_ue8m0_value).
  ROWSCALE_HD void store(Index batch, Index row, Index column, float value) const {
    if (encoding_ == ScaleEncoding::ue8m0 || encoding_ == ScaleEncoding::ue8m0_packed) {
      store_exponent(batch, row, column, numerics::ue8m0_of_value(value));
    } else {
      store_float(batch, row, column, value);
    }
  }
  // For the float encodings, and for the others.
  ROWSCALE_HD void store_float(Index batch, Index row, Index column, float value) const {
    store_as<kAlignment>(address(batch, row, column), value);
  }
  ROWSCALE_HD void store_exponent(Index batch, Index row, Index column, uint8_t byte) const {
    store_as(encoding_ == ScaleEncoding::ue8m0 ? address(batch, row, column)
                                               : byte_address(batch, row, column),
             byte);
  }
  [[nodiscard]] ROWSCALE_HD ScaleEncoding encoding() const { return encoding_; }
  // `count` scales of a row.
  void store(Index batch, Index row, Index column, const float* values, Index count) const {
    if (element_bytes_ == 4 && column_stride_ == 1 && encoding_ != ScaleEncoding::ue8m0_packed) {
      std::memcpy(address(batch, row, column), values, static_cast<size_t>(count) * sizeof(float));
      return;
    }
    for (Index i = 0; i < count; ++i) store(batch, row, column + i, values[i]);
  }

  // Zeros beside the scales of a row: the absent groups of a packed row's last word, the pad
  // columns of block_k4 (none after a batch's last row: nothing is written beyond its last scale).
  ROWSCALE_HD void write_row_pads(Index batch, Index row) const {
    if (encoding_ == ScaleEncoding::ue8m0_packed) {
      for (Index group = scales_; group < columns_ * kPackedGroups; ++group) {
        store_as(byte_address(batch, row, group), uint8_t{0});
      }
    } else if (column_stride_ == 1 && row + 1 < rows_) {
      // Nothing unless block_k4.
      for (Index column = columns_; column < row_stride_; ++column) {
        write_zero(batch, row, column);
      }
    }
  }

  // Zeros in the pad rows of column_major_tma and packed scales, those below the end of a batch's
  // last column.
  ROWSCALE_HD void write_pad_rows(Index batch) const {
    for (Index column = 0; column < columns_; ++column) write_column_pads(batch, column);
  }

  // One thread a scale, instead of the two above: whether pads follow this scale, and those pads.
  [[nodiscard]] ROWSCALE_HD bool has_pads_after(Index row, Index column) const {
    return has_row_pads_after(column) || (has_pad_rows_ && row + 1 == rows_);
  }
  [[nodiscard]] ROWSCALE_HD bool has_row_pads_after(Index column) const {
    return has_row_pads_ && column + 1 == scales_;
  }

  // One thread a scale or pad: whether the pads are the rows from the last one up to `end`, and
  // whether (row, column) is one of them. A zero stored there is a pad.
  [[nodiscard]] ROWSCALE_HD bool pads_end_at(Index end) const {
    return has_pad_rows_ && column_stride_ == end;
  }
  [[nodiscard]] ROWSCALE_HD bool is_pad(Index row, Index column) const {
    const Index element =
        encoding_ == ScaleEncoding::ue8m0_packed ? column / kPackedGroups : column;
    return has_pad_rows_ && row >= rows_ && row < column_stride_ && element + 1 < columns_;
  }
  ROWSCALE_HD void write_pads_after(Index batch, Index row, Index column, RowMasks masks) const {
    if (column + 1 == scales_) write_row_pads(batch, row);
    if (row + 1 != rows_ || masks == RowMasks::counted) return;
    if (encoding_ != ScaleEncoding::ue8m0_packed) {
      write_column_pads(batch, column);
    } else if (column % kPackedGroups == 0) {
      write_column_pads(batch, column / kPackedGroups);
    }
  }

 private:
  static constexpr Alignment kAlignment = sizeof(Index) == 4 ? Alignment::natural : Alignment::any;

  // `column` counts elements: words of packed scales.
  [[nodiscard]] ROWSCALE_HD std::byte* address(Index batch, Index row, Index column) const {
    const Index offset = batch * batch_stride_ + row * row_stride_ + column * column_stride_;
    return data_ + int64_t{offset} * element_bytes_;
  }
  // The exponent byte of a packed group: the lowest byte of a word is the first.
  [[nodiscard]] ROWSCALE_HD std::byte* byte_address(Index batch, Index row, Index group) const {
    return address(batch, row, group / kPackedGroups) + group % kPackedGroups;
  }
  ROWSCALE_HD void write_zero(Index batch, Index row, Index column) const {
    if (element_bytes_ == 1) {
      store_as(address(batch, row, column), uint8_t{0});
    } else {
      store_as<kAlignment>(address(batch, row, column), uint32_t{0});
    }
  }
  ROWSCALE_HD void write_column_pads(Index batch, Index column) const {
    if (row_stride_ != 1 || column + 1 >= columns_) return;
    for (Index row = rows_; row < column_stride_; ++row) write_zero(batch, row, column);
  }

  std::byte* data_ = nullptr;
  ScaleEncoding encoding_ = ScaleEncoding::f32;
  int32_t element_bytes_ = 4;
  Index rows_ = 0;
  Index scales_ = 0;   // a row
  Index columns_ = 0;  // elements a row
  Index batch_stride_ = 0;
  Index row_stride_ = 0;
  Index column_stride_ = 0;
  bool has_row_pads_ = false;
  bool has_pad_rows_ = false;
};

using ScaleView = BasicScaleView<int64_t>;

// Whether BasicScaleView<int32_t> serves `batches` matrices at `data`.
bool is_narrow(const Recipe& recipe, const ScaleGrid& grid, int64_t batches, const void* data);

}  // namespace rowscale::plan
