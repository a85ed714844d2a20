#include "rowscale/tensor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "api/words.hpp"

namespace rowscale {
namespace {

// A product too large for the machine wraps here; the operators' checks refuse such a view.
int64_t product(const int64_t* begin, const int64_t* end) {
  uint64_t result = 1;
  for (; begin < end; ++begin) result *= static_cast<uint64_t>(*begin);
  return static_cast<int64_t>(result);
}

}  // namespace

TensorView TensorView::strided(void* data, DType dtype, std::initializer_list<int64_t> shape,
                               std::initializer_list<int64_t> strides, Device device) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.device = device;
  if (shape.size() != strides.size() || shape.size() > size_t{kMaxRank}) {
    view.rank = -1;
    return view;
  }
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape);
  std::copy(strides.begin(), strides.end(), view.strides);
  return view;
}

TensorView TensorView::contiguous(const void* data, DType dtype, std::span<const int64_t> shape,
                                  Device device) {
  TensorView view;
  view.data = const_cast<void*>(data);
  view.dtype = dtype;
  view.device = device;
  view.rank = -1;
  if (shape.size() > size_t{kMaxRank}) return view;
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape);
  for (int i = 0; i < view.rank; ++i) {
    view.strides[i] = product(view.shape + i + 1, view.shape + view.rank);
  }
  return view;
}

TensorView TensorView::contiguous(void* data, DType dtype, std::initializer_list<int64_t> shape,
                                  Device device) {
  return contiguous(data, dtype, std::span(shape.begin(), shape.size()), device);
}

TensorView TensorView::strided(const void* data, DType dtype, std::initializer_list<int64_t> shape,
                               std::initializer_list<int64_t> strides, Device device) {
  return strided(const_cast<void*>(data), dtype, shape, strides, device);
}

TensorView TensorView::contiguous(const void* data, DType dtype,
                                  std::initializer_list<int64_t> shape, Device device) {
  return contiguous(data, dtype, std::span(shape.begin(), shape.size()), device);
}

TensorView TensorView::as_rows(std::span<const int32_t> rows,
                               std::span<const int32_t> columns) const {
  TensorView view = *this;
  view.rank = -1;
  if (rank < 1 || columns.empty() || rows.size() > static_cast<size_t>(rank) ||
      columns.size() != static_cast<size_t>(rank) - rows.size()) {
    return view;
  }
  unsigned seen = 0;
  int to = 0;
  for (const auto& dims : {rows, columns}) {
    for (int32_t from : dims) {
      if (from < 0 || from >= rank || (seen >> from & 1U) != 0) return view;
      seen |= 1U << from;
      view.shape[to] = shape[from];
      view.strides[to] = strides[from];
      ++to;
    }
  }
  view.rank = rank;
  view.column_rank = static_cast<int>(columns.size());
  return view;
}

TensorView TensorView::as_rows(std::initializer_list<int> rows,
                               std::initializer_list<int> columns) const {
  return as_rows(std::span(rows.begin(), rows.size()), std::span(columns.begin(), columns.size()));
}

TensorView TensorView::with_row_counts(const int32_t* counts) const {
  TensorView view = *this;
  view.row_counts = counts;
  return view;
}

// Ranks out of range, which the checks refuse, read nothing beyond the arrays.
int64_t TensorView::rows() const {
  return product(shape, shape + std::clamp(rank - column_rank, 0, kMaxRank));
}

int64_t TensorView::columns() const {
  return product(shape + std::clamp(rank - column_rank, 0, kMaxRank),
                 shape + std::clamp(rank, 0, kMaxRank));
}

int64_t element_size(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::e4m3:
    case DType::e5m2:
    case DType::ue8m0:
      return 1;
  }
  return 1;
}

const char* to_string(DType dtype) {
  const char* word = api::word_of(dtype);
  return word == nullptr ? "an unknown dtype" : word;
}

std::string to_string(const TensorView& view) {
  if (view.rank < 0 || view.rank > kMaxRank) return "an invalid view";
  const auto text = [](const char* what, auto value) {
    return (api::word_of(value) == nullptr ? what : "") + api::text_of(value);
  };
  std::string device = text("device type ", view.device.type);
  // There is one CPU.
  if (view.device != Device{}) device += fmt::format(":{}", view.device.index);
  return fmt::format("{} [{}] strides [{}] on {}", text("dtype ", view.dtype),
                     fmt::join(view.shape, view.shape + view.rank, ", "),
                     fmt::join(view.strides, view.strides + view.rank, ", "), device);
}

}  // namespace rowscale
