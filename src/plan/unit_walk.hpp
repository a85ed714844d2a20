// Which unit of a row the i-th lanes of a grid take: host and device code, so that a test goes
// through all of it (tests/plan/unit_walk_test.cpp).
#pragma once

#include "numerics/fp.hpp"
#include "plan/divider.hpp"
#include "plan/scale_view.hpp"

namespace rowscale::plan {

template <class Index>
struct UnitPlace {
  Index row;     // of all batches; 0 where the unit does not exist
  Index column;  // of the scale matrix
  bool exists;
};

// One row after the other: neighbours lie beside each other.
template <class Index>
class UnitsBeside {
 public:
  static constexpr bool kHasPads = false;

  UnitsBeside(Index rows, Index units_in_row, const BasicScaleView<Index>& /*scales*/)
      : units_(rows * units_in_row) {}

  [[nodiscard]] ROWSCALE_HD UnitPlace<Index> place(Index index,
                                                   const Divider<Index>& units_in_row) const {
    const bool exists = index < units_;
    if (!exists) index = 0;
    const Index row = units_in_row.divide(index);
    return {row, index - row * units_in_row.divisor(), exists};
  }

 private:
  Index units_;
};

// Four rows at a time: neighbours lie below each other. The rows that fill up the last four have
// units too, which write the pads below a column where these end with them.
template <class Index>
class UnitsBelow {
 public:
  static constexpr bool kHasPads = true;
  static constexpr Index kRows = 4;

  UnitsBelow(Index rows, Index /*units_in_row*/, const BasicScaleView<Index>& scales)
      : rows_(rows), fills_pads_(scales.pads_end_at((rows + kRows - 1) / kRows * kRows)) {}

  [[nodiscard]] ROWSCALE_HD UnitPlace<Index> place(Index index,
                                                   const Divider<Index>& units_in_row) const {
    const Index row = row_of(index, units_in_row);
    const Index column =
        index / kRows - units_in_row.divide(index / kRows) * units_in_row.divisor();
    const bool exists = row < rows_;
    return {exists ? row : 0, column, exists};
  }
  // Also beyond the last row.
  [[nodiscard]] ROWSCALE_HD Index row_of(Index index, const Divider<Index>& units_in_row) const {
    return units_in_row.divide(index / kRows) * kRows + index % kRows;
  }
  [[nodiscard]] ROWSCALE_HD bool fills_pads() const { return fills_pads_; }

 private:
  Index rows_;
  bool fills_pads_;
};

}  // namespace rowscale::plan
