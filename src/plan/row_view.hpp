// A TensorView as rows and columns: the one place that turns (row, column) into an address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rowscale/tensor.hpp"

namespace rowscale::plan {

// Data of [batch..., rows, columns]. `rows` is the last row dimension (1 where there is none): what
// masks count and what column-major scales run along; the dimensions before it are batches.
class RowView {
 public:
  RowView() = default;
  // The view has been checked (api/check.hpp).
  explicit RowView(const TensorView& view);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] int64_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] int64_t batches() const { return batches_; }
  [[nodiscard]] int64_t rows_per_batch() const { return rows_; }
  [[nodiscard]] int64_t rows() const { return batches_ * rows_; }
  [[nodiscard]] int64_t columns() const { return columns_; }
  // Rows of the batch that exist: row_counts, clamped.
  [[nodiscard]] int64_t valid_rows(int64_t batch) const;
  [[nodiscard]] bool is_masked() const { return row_counts_ != nullptr; }
  [[nodiscard]] bool row_exists(int64_t row) const {
    return row_counts_ == nullptr || row % rows_ < valid_rows(row / rows_);
  }

  // `count` elements of a row as contiguous memory: a pointer into the tensor where they are, or
  // `scratch` (count * element_bytes), filled with a copy.
  const std::byte* read(int64_t row, int64_t column, int64_t count, void* scratch) const;
  // Where to write `count` elements: into the tensor where they are contiguous, or `scratch`; after
  // writing, commit() copies scratch to its place.
  std::byte* write_target(int64_t row, int64_t column, int64_t count, void* scratch) const;
  void commit(int64_t row, int64_t column, int64_t count, const void* written) const;

  [[nodiscard]] std::byte* address(int64_t row, int64_t column) const;

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
