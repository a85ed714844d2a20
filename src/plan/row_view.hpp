// A TensorView as rows and columns: the one place that turns (row, column) into an address, on host
// and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/fp.hpp"
#include "plan/divider.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::plan {

// Data of [batch..., rows, columns]. `rows` is the last row dimension (1 where there is none): what
// masks count and what column-major scales run along; the dimensions before it are batches.
class RowView {
 public:
  RowView() = default;
  // The view has been checked (api/check.hpp).
  explicit RowView(const TensorView& view);

  [[nodiscard]] ROWSCALE_HD DType dtype() const { return dtype_; }
  [[nodiscard]] ROWSCALE_HD int64_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] ROWSCALE_HD int64_t batches() const { return batches_; }
  [[nodiscard]] ROWSCALE_HD int64_t rows_per_batch() const { return rows_; }
  [[nodiscard]] ROWSCALE_HD int64_t rows() const { return batches_ * rows_; }
  [[nodiscard]] ROWSCALE_HD int64_t columns() const { return columns_; }
  // Rows of the batch that exist: row_counts, clamped. Counts lie on the tensor's device.
  [[nodiscard]] ROWSCALE_HD int64_t valid_rows(int64_t batch) const {
    if (row_counts_ == nullptr) return rows_;
    const int64_t count = row_counts_[batch];
    return count < 0 ? 0 : (count > rows_ ? rows_ : count);
  }
  [[nodiscard]] ROWSCALE_HD bool is_masked() const { return row_counts_ != nullptr; }
  [[nodiscard]] ROWSCALE_HD bool row_exists(int64_t row) const {
    if (row_counts_ == nullptr) return true;
    const QuotientRemainder at = divide(row, rows_);
    return at.remainder < valid_rows(at.quotient);
  }

  [[nodiscard]] const int32_t* row_counts() const { return row_counts_; }

  // `count` elements of a row as contiguous memory: a pointer into the tensor where they are, or
  // `scratch` (count * element_bytes), filled with a copy.
  const std::byte* read(int64_t row, int64_t column, int64_t count, void* scratch) const;
  // Where to write `count` elements: into the tensor where they are contiguous, or `scratch`; after
  // writing, commit() copies scratch to its place.
  std::byte* write_target(int64_t row, int64_t column, int64_t count, void* scratch) const;
  void commit(int64_t row, int64_t column, int64_t count, const void* written) const;

  [[nodiscard]] ROWSCALE_HD std::byte* address(int64_t row, int64_t column) const {
    const QuotientRemainder in_run = divide(column, run_);
    int64_t offset = in_run.remainder * element_bytes_;
    for (int i = row_rank_ - 1; i > 0; --i) {
      const QuotientRemainder at = divide(row, row_dims_[i].size);
      offset += at.remainder * row_dims_[i].stride;
      row = at.quotient;
    }
    if (row_rank_ > 0) offset += row * row_dims_[0].stride;
    int64_t outer = in_run.quotient;
    for (int i = outer_column_rank_ - 1; i >= 0; --i) {
      const QuotientRemainder at = divide(outer, outer_column_dims_[i].size);
      offset += at.remainder * outer_column_dims_[i].stride;
      outer = at.quotient;
    }
    return data_ + offset;
  }

  // The same rows as one batch. Not of masked ones.
  [[nodiscard]] RowView as_one_batch() const {
    RowView one = *this;
    one.rows_ = rows();
    one.batches_ = 1;
    return one;
  }

  // Columns that lie side by side, from every multiple of it.
  [[nodiscard]] ROWSCALE_HD int64_t run() const { return run_; }
  // Whether row r begins at data + r * row_stride() bytes and its columns lie side by side.
  [[nodiscard]] bool is_strided() const { return row_rank_ <= 1 && outer_column_rank_ == 0; }
  [[nodiscard]] int64_t row_stride() const { return row_rank_ == 0 ? 0 : row_dims_[0].stride; }
  // The same of rows whose columns lie in runs at one stride, as the heads of attention do: run i
  // of row r begins at data + r * row_stride() + i * run_stride().
  [[nodiscard]] bool is_strided_by_runs() const {
    return row_rank_ <= 1 && outer_column_rank_ <= 1;
  }
  [[nodiscard]] int64_t run_stride() const {
    return outer_column_rank_ == 0 ? 0 : outer_column_dims_[0].stride;
  }

 private:
  [[nodiscard]] bool contiguous(int64_t column, int64_t count) const {
    return column % run_ + count <= run_;
  }

  struct Dimension {
    int64_t size;
    int64_t stride;  // bytes
  };
  std::byte* data_ = nullptr;
  DType dtype_ = DType::f32;
  int64_t element_bytes_ = 0;
  int64_t batches_ = 1;
  int64_t rows_ = 1;
  int64_t columns_ = 1;
  int64_t run_ = 1;  // columns that lie side by side
  int row_rank_ = 0;
  int outer_column_rank_ = 0;
  Dimension row_dims_[kMaxRank] = {};           // outermost first
  Dimension outer_column_dims_[kMaxRank] = {};  // column dimensions outside a run
  const int32_t* row_counts_ = nullptr;
};

}  // namespace rowscale::plan
