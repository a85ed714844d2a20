#include "plan/scale_view.hpp"

#include <algorithm>
#include <bit>

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

bool is_narrow(const Recipe& recipe, const ScaleGrid& grid, int64_t batches, const void* data) {
  constexpr int64_t kMost = 0x7FFFFFFF;
  const ScaleStrides strides = scale_strides(recipe, grid);
  const int64_t matrices = grid.one_for_all ? 1 : batches;
  // Pads included, and every factor of a product.
  const bool is_small = grid.data_rows <= kMost && strides.batch <= kMost &&
                        matrices * std::max<int64_t>(strides.batch, 1) <= kMost;
  const int64_t bytes = encoding_bytes(recipe.encoding);
  return is_small && reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

}  // namespace rowscale::plan
