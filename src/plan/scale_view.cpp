#include "plan/scale_view.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rowscale::plan {
namespace {

static_assert(std::endian::native == std::endian::little, "packed scales are addressed by byte");

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
constexpr int64_t round_up(int64_t a, int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

constexpr int64_t kTmaBytes = 16;  // alignment of a column for the tensor memory accelerator
constexpr int64_t kBlockK4 = 4;    // cuBLASLt reads rows of 128x128 block scales in multiples of 4

int64_t encoding_bytes(ScaleEncoding encoding) {
  return encoding == ScaleEncoding::ue8m0 ? 1 : 4;
}

}  // namespace

ScaleGrid::ScaleGrid(const Recipe& recipe, int64_t rows_per_batch, int64_t data_columns)
    : data_rows(std::max<int64_t>(rows_per_batch, 1)),
      unit_columns(std::max<int64_t>(data_columns, 1)) {
  switch (recipe.granularity) {
    case Granularity::per_tensor:
      unit_rows = data_rows;
      one_for_all = true;
      break;
    case Granularity::per_token:
    case Granularity::per_channel:
      break;
    case Granularity::per_column:
      unit_rows = data_rows;
      unit_columns = 1;
      one_for_all = true;
      break;
    // A unit larger than the data is as large as the data: sums of units then cannot overflow.
    case Granularity::per_group:
      unit_columns = std::min(recipe.group_size, unit_columns);
      break;
    case Granularity::per_block:
      unit_rows = std::min(recipe.block_rows, data_rows);
      unit_columns = std::min(recipe.block_columns, unit_columns);
      break;
  }
  // One scale a tensor, one a column and one a row are there even where no element is.
  const bool whole_row = recipe.granularity == Granularity::per_tensor ||
                         recipe.granularity == Granularity::per_token ||
                         recipe.granularity == Granularity::per_channel;
  rows = one_for_all ? 1 : ceil_div(rows_per_batch, unit_rows);
  columns = whole_row ? 1 : ceil_div(data_columns, unit_columns);
}

ScaleStrides scale_strides(const Recipe& recipe, const ScaleGrid& grid) {
  const int64_t rows = grid.rows;
  if (recipe.encoding == ScaleEncoding::ue8m0_packed) {
    const int64_t words = ceil_div(grid.columns, kPackedGroups);
    const int64_t column = round_up(rows, kTmaBytes / 4);
    return {words, words * column, 1, column};
  }
  switch (recipe.layout) {
    case ScaleLayout::column_major:
      return {grid.columns, rows * grid.columns, 1, rows};
    case ScaleLayout::column_major_tma: {
      const int64_t column = round_up(rows, kTmaBytes / encoding_bytes(recipe.encoding));
      return {grid.columns, column * grid.columns, 1, column};
    }
    case ScaleLayout::block_k4: {
      const int64_t row = round_up(grid.columns, kBlockK4);
      return {grid.columns, rows * row, row, 1};
    }
    case ScaleLayout::row_major:
      break;
  }
  return {grid.columns, rows * grid.columns, grid.columns, 1};
}

ScaleView::ScaleView(const Recipe& recipe, const ScaleGrid& grid, void* data)
    : data_(static_cast<std::byte*>(data)),
      encoding_(recipe.encoding),
      element_bytes_(encoding_bytes(recipe.encoding)),
      rows_(grid.rows),
      scales_(grid.columns),
      strides_(scale_strides(recipe, grid)) {
  if (grid.one_for_all) strides_.batch = 0;
}

void ScaleView::store(int64_t batch, int64_t row, int64_t column, const float* values,
                      int64_t count) const {
  if (element_bytes_ == 4 && strides_.column == 1 && encoding_ != ScaleEncoding::ue8m0_packed) {
    std::memcpy(address(batch, row, column), values, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) store(batch, row, column + i, values[i]);
}

}  // namespace rowscale::plan
