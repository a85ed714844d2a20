// Every unit of a grid once, every pad once, and nothing else: the walks of the kernels, gone
// through on the host with marks in place of scales.
#include "plan/unit_walk.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "rowscale/rowscale.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::plan {
namespace {

using test::with;

struct Case {
  Recipe recipe;
  int32_t rows;
  int32_t columns;  // of the data
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const Recipe& recipe :
       {per_group(128), with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major),
        with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma),
        with(per_group(128), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma),
        with(per_group(128), ScaleEncoding::ue8m0_packed)}) {
    for (int32_t rows : {1, 2, 3, 4, 5, 8, 15, 16, 17, 33}) {
      for (int32_t columns : {128, 256, 640, 1368, 7168}) {
        out.push_back({resolve(recipe), rows, columns});
      }
    }
  }
  return out;
}

// Positions that a grid may have: what is needed and a block's worth beyond.
template <class Walk, class Visit>
void go_through(const Walk& walk, const Case& c, int32_t groups, Visit&& visit) {
  const Divider<int32_t> units_in_row(groups);
  const int32_t most = (c.rows + 8) * groups + 256;
  for (int32_t i = 0; i < most; ++i) visit(i, walk.place(i, units_in_row), units_in_row);
}

template <class Walk>
void expect_each_unit_once(const Case& c) {
  const ScaleGrid grid(c.recipe, c.rows, c.columns);
  const BasicScaleView<int32_t> scales(c.recipe, grid, nullptr);
  const auto groups = static_cast<int32_t>(grid.columns);
  const Walk walk(c.rows, groups, scales);
  std::set<std::pair<int32_t, int32_t>> seen;
  go_through(walk, c, groups, [&](int32_t, const UnitPlace<int32_t>& at, const auto&) {
    if (!at.exists) return;
    EXPECT_TRUE(at.row >= 0 && at.row < c.rows && at.column >= 0 && at.column < groups);
    EXPECT_TRUE(seen.emplace(at.row, at.column).second);
  });
  EXPECT_EQ(seen.size(), static_cast<size_t>(c.rows) * static_cast<size_t>(groups))
      << to_string(c.recipe) << " rows " << c.rows << " columns " << c.columns;
}

TEST(UnitWalk, EachUnitOnce) {
  for (const Case& c : cases()) {
    expect_each_unit_once<UnitsBeside<int32_t>>(c);
    expect_each_unit_once<UnitsBelow<int32_t>>(c);
  }
}

// What the units store, scales and pads, against what the CPU's quantize leaves in storage of which
// every byte was something else before.
TEST(UnitWalk, PadsAreTheCpus) {
  int with_pads = 0;
  for (const Case& c : cases()) {
    const ScaleGrid grid(c.recipe, c.rows, c.columns);
    const auto groups = static_cast<int32_t>(grid.columns);
    const std::vector<float> x(static_cast<size_t>(c.rows) * static_cast<size_t>(c.columns),
                               448.0F);
    std::vector<uint8_t> codes(x.size());
    const TensorView x_view = TensorView::contiguous(x.data(), DType::f32, {c.rows, c.columns});
    const TensorView code_view =
        TensorView::contiguous(static_cast<void*>(codes.data()), DType::e4m3, {c.rows, c.columns});
    ScaleSpec spec;
    ASSERT_TRUE(scale_spec(code_view, c.recipe, &spec).ok());
    const auto bytes = static_cast<size_t>(spec.storage * element_size(spec.dtype)) + 64;
    alignas(16) static uint8_t expected[1 << 16];
    alignas(16) static uint8_t got[1 << 16];
    ASSERT_LE(bytes, sizeof expected);
    std::memset(expected, 0xA5, bytes);
    std::memset(got, 0xA5, bytes);
    ASSERT_TRUE(quantize(x_view, c.recipe, code_view, spec.view(expected), {}).ok());

    const BasicScaleView<int32_t> scales(c.recipe, grid, got);
    const UnitsBelow<int32_t> walk(c.rows, groups, scales);
    go_through(walk, c, groups, [&](int32_t i, const UnitPlace<int32_t>& at, const auto& in_row) {
      const int32_t row = walk.row_of(i, in_row);
      if (at.exists) {
        scales.store(0, at.row, at.column, 1.0F);  // 448 / MAX
        const bool has_pads = walk.fills_pads() ? scales.has_row_pads_after(at.column)
                                                : scales.has_pads_after(at.row, at.column);
        if (!has_pads) return;
        if (walk.fills_pads()) {
          scales.write_row_pads(0, at.row);
        } else {
          scales.write_pads_after(0, at.row, at.column, RowMasks::none);
        }
      } else if (walk.fills_pads() && scales.is_pad(row, at.column)) {
        scales.write_pad(0, row, at.column);
        ++with_pads;
      }
    });
    EXPECT_EQ(std::memcmp(expected, got, bytes), 0)
        << to_string(c.recipe) << " rows " << c.rows << " columns " << c.columns;
  }
  EXPECT_GT(with_pads, 1000);
}

}  // namespace
}  // namespace rowscale::plan
