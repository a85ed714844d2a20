#include "plan/scale_view.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "numerics/ue8m0.hpp"

namespace rowscale::plan {
namespace {

static_assert(std::endian::native == std::endian::little, "packed scales are addressed by byte");

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
constexpr int64_t round_up(int64_t a, int64_t multiple) {
  return ceil_div(a, multiple) * multiple;
}

constexpr int64_t kPackedGroups = 4;  // exponent bytes in a word
constexpr int64_t kTmaBytes = 16;     // alignment of a column for the tensor memory accelerator
constexpr int64_t kBlockK4 = 4;  // cuBLASLt reads rows of 128x128 block scales in multiples of 4

int64_t encoding_bytes(ScaleEncoding encoding) {
  return encoding == ScaleEncoding::ue8m0 ? 1 : 4;
}

}  // namespace

ScaleGrid::ScaleGrid(const Recipe& recipe, int64_t rows_per_batch, int64_t data_columns)
    : data_rows(std::max<int64_t>(rows_per_batch, 1)),
      unit_rows(1),
      unit_columns(std::max<int64_t>(data_columns, 1)),
      one_for_all(false) {
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

std::byte* ScaleView::address(int64_t batch, int64_t row, int64_t column) const {
  return data_ +
         (batch * strides_.batch + row * strides_.row + column * strides_.column) * element_bytes_;
}

float ScaleView::load(int64_t batch, int64_t row, int64_t column) const {
  switch (encoding_) {
    case ScaleEncoding::f32:
    case ScaleEncoding::ue8m0_f32: {
      float value;
      std::memcpy(&value, address(batch, row, column), sizeof value);
      return value;
    }
    case ScaleEncoding::ue8m0:
      return numerics::ue8m0_decode(std::to_integer<uint8_t>(*address(batch, row, column)));
    case ScaleEncoding::ue8m0_packed: {
      const std::byte* word = address(batch, row, column / kPackedGroups);
      return numerics::ue8m0_decode(std::to_integer<uint8_t>(word[column % kPackedGroups]));
    }
  }
  return 0.0F;
}

void ScaleView::store(int64_t batch, int64_t row, int64_t column, const float* values,
                      int64_t count) const {
  switch (encoding_) {
    case ScaleEncoding::f32:
    case ScaleEncoding::ue8m0_f32: {
      std::byte* to = address(batch, row, column);
      if (strides_.column == 1) {
        std::memcpy(to, values, static_cast<size_t>(count) * sizeof(float));
        return;
      }
      const int64_t step = strides_.column * int64_t{sizeof(float)};
      for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * step, values + i, sizeof(float));
      return;
    }
    case ScaleEncoding::ue8m0: {
      std::byte* to = address(batch, row, column);
      for (int64_t i = 0; i < count; ++i) {
        to[i * strides_.column] = std::byte{numerics::ue8m0_of_value(values[i])};
      }
      return;
    }
    case ScaleEncoding::ue8m0_packed:
      for (int64_t i = 0; i < count; ++i) {
        const int64_t group = column + i;
        address(batch, row, group / kPackedGroups)[group % kPackedGroups] =
            std::byte{numerics::ue8m0_of_value(values[i])};
      }
      return;
  }
}

void ScaleView::write_row_pads(int64_t batch, int64_t row) const {
  if (encoding_ == ScaleEncoding::ue8m0_packed) {
    for (int64_t group = scales_; group < strides_.columns * kPackedGroups; ++group) {
      address(batch, row, group / kPackedGroups)[group % kPackedGroups] = std::byte{0};
    }
  } else if (strides_.column == 1 && row + 1 < rows_) {
    const int64_t pads = strides_.row - strides_.columns;  // 0 unless block_k4
    std::memset(address(batch, row, strides_.columns), 0,
                static_cast<size_t>(std::max<int64_t>(pads, 0) * element_bytes_));
  }
}

void ScaleView::write_pad_rows(int64_t batch) const {
  if (strides_.row != 1 || strides_.column <= rows_) return;
  for (int64_t column = 0; column + 1 < strides_.columns; ++column) {
    std::memset(address(batch, rows_, column), 0,
                static_cast<size_t>((strides_.column - rows_) * element_bytes_));
  }
}

}  // namespace rowscale::plan
