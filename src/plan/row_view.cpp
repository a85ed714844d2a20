#include "plan/row_view.hpp"

#include <algorithm>
#include <cstring>

namespace rowscale::plan {

RowView::RowView(const TensorView& view)
    : data_(static_cast<std::byte*>(view.data)),
      dtype_(view.dtype),
      element_bytes_(element_size(view.dtype)),
      columns_(view.columns()),
      row_counts_(view.row_counts) {
  const int row_rank = std::max(view.rank - view.column_rank, 0);
  if (row_rank > 0) rows_ = view.shape[row_rank - 1];
  for (int i = 0; i + 1 < row_rank; ++i) batches_ *= view.shape[i];

  // A dimension that continues the one outside it is merged with it: fewer divisions an address.
  const auto append = [&](Dimension* dims, int* rank, int64_t size, int64_t elements) {
    if (size <= 1) return;  // its stride is never used, and may be anything
    const int64_t stride = elements * element_bytes_;
    if (*rank > 0 && dims[*rank - 1].stride == size * stride) {
      dims[*rank - 1] = {dims[*rank - 1].size * size, stride};
    } else {
      dims[(*rank)++] = {size, stride};
    }
  };
  for (int i = 0; i < row_rank; ++i) {
    append(row_dims_, &row_rank_, view.shape[i], view.strides[i]);
  }
  for (int i = row_rank; i < view.rank; ++i) {
    append(outer_column_dims_, &outer_column_rank_, view.shape[i], view.strides[i]);
  }
  // The innermost columns lie side by side, unless a last dimension of size 1 hid that they do not.
  if (outer_column_rank_ > 0 &&
      outer_column_dims_[outer_column_rank_ - 1].stride == element_bytes_) {
    run_ = outer_column_dims_[--outer_column_rank_].size;
  }
}

const std::byte* RowView::read(int64_t row, int64_t column, int64_t count, void* scratch) const {
  if (contiguous(column, count)) return address(row, column);
  auto* out = static_cast<std::byte*>(scratch);
  for (int64_t done = 0; done < count;) {
    const int64_t piece = std::min(count - done, run_ - (column + done) % run_);
    std::memcpy(out + done * element_bytes_, address(row, column + done),
                static_cast<size_t>(piece * element_bytes_));
    done += piece;
  }
  return out;
}

std::byte* RowView::write_target(int64_t row, int64_t column, int64_t count, void* scratch) const {
  return contiguous(column, count) ? address(row, column) : static_cast<std::byte*>(scratch);
}

void RowView::commit(int64_t row, int64_t column, int64_t count, const void* written) const {
  if (contiguous(column, count)) return;
  const auto* in = static_cast<const std::byte*>(written);
  for (int64_t done = 0; done < count;) {
    const int64_t piece = std::min(count - done, run_ - (column + done) % run_);
    std::memcpy(address(row, column + done), in + done * element_bytes_,
                static_cast<size_t>(piece * element_bytes_));
    done += piece;
  }
}

}  // namespace rowscale::plan
