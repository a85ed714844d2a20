// A view of somebody else's memory. rowscale owns no tensor.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "rowscale/export.hpp"
#include "rowscale/types.hpp"

namespace rowscale {

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;  // of a GPU, as the CUDA runtime counts; 0 on the CPU, all else is refused
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr int kMaxRank = 8;

// shape[0 .. rank) and strides[0 .. rank) in elements; a stride may be anything (0 repeats a row),
// but the last dimension of data must have stride 1. Operators see rows and columns: the last
// `column_rank` dimensions together are the columns of a row, those before them are the rows.
//
// Examples: contiguous [tokens, hidden]; a slice of a wider buffer (row stride > hidden); attention
// output [heads, tokens, dim] as rows of heads*dim columns: view.as_rows({1}, {0, 2}). Codes, rows
// that are stored and scales then are [tokens, heads*dim] and what a recipe makes of it, or views
// of that kind themselves; a group may reach from one head into the next.
struct ROWSCALE_API TensorView {
  void* data = nullptr;  // borrowed; inputs are only read, so const data may be cast into a view
  DType dtype = DType::f32;
  Device device;
  int rank = 0;  // 0 is a scalar; negative marks a view that could not be made, refused everywhere
  int column_rank = 1;
  int64_t shape[kMaxRank] = {};
  int64_t strides[kMaxRank] = {};

  // Masked rows (mixture of experts): data is [batch..., rows, hidden], and only the first
  // row_counts[b] rows of batch b exist (clamped to 0 .. rows). One int32 a batch, on the tensor's
  // device, contiguous. Rows at or beyond the count are neither read nor written, nor are their
  // scales. nullptr: all rows exist. Operators read it from their input (x or codes) and ignore it
  // in other tensors. The counts themselves may not lie in an output.
  const int32_t* row_counts = nullptr;

  static TensorView contiguous(void* data, DType dtype, std::initializer_list<int64_t> shape,
                               Device device = {});
  static TensorView contiguous(const void* data, DType dtype, std::initializer_list<int64_t> shape,
                               Device device = {});
  static TensorView strided(void* data, DType dtype, std::initializer_list<int64_t> shape,
                            std::initializer_list<int64_t> strides, Device device = {});
  static TensorView strided(const void* data, DType dtype, std::initializer_list<int64_t> shape,
                            std::initializer_list<int64_t> strides, Device device = {});

  // Of a rank known only at run time.
  static TensorView contiguous(const void* data, DType dtype, std::span<const int64_t> shape,
                               Device device = {});

  // The same memory with dimensions `rows` as rows and `columns` (one or more) as the columns, in
  // the order given. Every dimension must be named exactly once; otherwise the result is refused by
  // every operator.
  [[nodiscard]] TensorView as_rows(std::initializer_list<int> rows,
                                   std::initializer_list<int> columns) const;
  [[nodiscard]] TensorView as_rows(std::span<const int32_t> rows,
                                   std::span<const int32_t> columns) const;
  [[nodiscard]] TensorView with_row_counts(const int32_t* counts) const;

  [[nodiscard]] int64_t rows() const;     // product of the row dimensions; 1 where there are none
  [[nodiscard]] int64_t columns() const;  // product of the column dimensions
};

ROWSCALE_API int64_t element_size(DType dtype);   // bytes
ROWSCALE_API const char* to_string(DType dtype);  // "bf16"
ROWSCALE_API std::string to_string(
    const TensorView& view);  // "bf16 [4, 128] strides [256, 1] on cpu"

}  // namespace rowscale
