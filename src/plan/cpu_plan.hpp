// How a CPU call walks its data: a value made from shapes alone, never from the data, and
// printable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

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
inline constexpr int64_t kStripScales = 1024;

struct CpuPlan {
  Split split = Split::rows;
  Target target = Target::scalar;
  int threads = 1;
  int64_t unit = 1;           // columns that share a scale
  int64_t strip = 1;          // columns a step; whole units where a unit fits
  int64_t items_per_row = 1;  // a thread takes a strip of a row at a time, or (1) the whole row
  friend bool operator==(const CpuPlan&, const CpuPlan&) = default;

  [[nodiscard]] bool unit_fits_strip() const { return unit <= strip; }
};

std::string to_string(const CpuPlan& plan);

// What the rows of a source allow: to be taken in parts, or only whole (a norm's elements depend on
// the whole row, so a row is one item).
enum class RowUse { parts, whole };

// threads >= 1; target is none but a target that the machine runs.
CpuPlan plan_cpu(const Recipe& recipe, int64_t rows, int64_t columns, RowUse use, int64_t threads,
                 Target target);

// The strips of an item's row that are worked on one after the other: visit(column, count). No
// strip crosses the border of units that are longer than strips.
template <class Visit>
void for_each_strip(const CpuPlan& plan, int64_t item, int64_t columns, Visit&& visit) {
  int64_t begin = item % plan.items_per_row * plan.strip;
  const int64_t end = plan.items_per_row > 1 ? std::min(begin + plan.strip, columns) : columns;
  while (begin < end) {
    int64_t count = std::min(plan.strip, end - begin);
    if (!plan.unit_fits_strip()) count = std::min(count, plan.unit - begin % plan.unit);
    visit(begin, count);
    begin += count;
  }
}

}  // namespace rowscale::plan
