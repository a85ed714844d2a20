// How a CPU call walks its data: a value made from shapes alone, never from the data, and printable.
#pragma once

#include <cstdint>
#include <string>

#include "cpu/kernels.hpp"
#include "plan/row_view.hpp"
#include "plan/scale_view.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::plan {

// rows: a scale covers part of one row or one row. blocks: a scale covers a tile of several rows.
// tensor: one amax first, then the codes.
enum class Split { rows, blocks, tensor };

// Elements that are worked on at a time: they and their codes stay in the first-level cache, and an
// operator's scratch for them on the stack.
inline constexpr int64_t kStripElements = 8192;
// Scales of a strip that are held on the stack.
inline constexpr int64_t kStripScales = cpu::kMaxGroups;

struct CpuPlan {
  Split split = Split::rows;
  Target target = Target::scalar;
  int threads = 1;
  int64_t unit = 1;   // columns that share a scale
  int64_t strip = 1;  // columns a step; whole units where a unit fits
  int64_t items_per_row = 1;  // a thread takes a strip of a row at a time, or (1) the whole row
  friend bool operator==(const CpuPlan&, const CpuPlan&) = default;

  [[nodiscard]] bool unit_fits_strip() const { return unit <= strip; }
};

std::string to_string(const CpuPlan& plan);

// rows_are_whole: a row's elements depend on the whole row (a norm), so a row is one item.
CpuPlan plan_cpu(const Recipe& recipe, int64_t rows, int64_t columns, bool rows_are_whole,
                 const Exec& exec);

}  // namespace rowscale::plan
