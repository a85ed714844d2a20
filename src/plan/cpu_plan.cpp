#include "plan/cpu_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rowscale::plan {
namespace {

// Below this a thread's start costs more than its work saves (about 10 us at 10 GB/s of bf16).
constexpr int64_t kElementsPerThread = 65536;

// A row of blocks is read twice, tile by tile: narrow tiles (128 rows of 4 KiB) stay in the
// second-level cache.
constexpr int64_t kBlockStripElements = 2048;

Split split_of(const Recipe& recipe) {
  if (recipe.scale_source == ScaleSource::given) return Split::rows;
  switch (recipe.granularity) {
    case Granularity::per_tensor:
      return Split::tensor;
    case Granularity::per_block:
      return Split::blocks;
    default:
      return Split::rows;
  }
}

}  // namespace

CpuPlan plan_cpu(const Recipe& recipe, int64_t rows, int64_t columns, RowUse use, int64_t threads,
                 Target target) {
  CpuPlan plan;
  plan.split = split_of(recipe);
  plan.target = target;

  const int64_t width = std::max<int64_t>(columns, 1);
  switch (recipe.granularity) {
    case Granularity::per_group:
      plan.unit = std::min(recipe.group_size, width);
      break;
    case Granularity::per_block:
      plan.unit = std::min(recipe.block_columns, width);
      break;
    case Granularity::per_column:
      plan.unit = 1;
      break;
    default:
      plan.unit = width;
  }
  const int64_t longest = plan.split == Split::blocks ? kBlockStripElements : kStripElements;
  const int64_t most = std::min(longest, std::min(plan.unit, kStripElements) * kStripScales);
  plan.strip = plan.unit <= most ? most / plan.unit * plan.unit : longest;
  // A dynamic scale ties its unit's strips together; given scales and a known tensor scale do not.
  const bool strips_are_free =
      plan.split != Split::blocks &&
      (plan.unit_fits_strip() || recipe.scale_source == ScaleSource::given ||
       plan.split == Split::tensor);
  if (strips_are_free && use == RowUse::parts) {
    plan.items_per_row = (width + plan.strip - 1) / plan.strip;
  }

  const int64_t useful = rows * width / kElementsPerThread + 1;
  plan.threads = static_cast<int>(std::max<int64_t>(1, std::min(threads, useful)));
  return plan;
}

std::string to_string(const CpuPlan& plan) {
  const char* split = plan.split == Split::rows     ? "rows"
                      : plan.split == Split::blocks ? "blocks"
                                                    : "tensor";
  return fmt::format("cpu split={} target={} threads={} unit={} strip={} items_per_row={}", split,
                     rowscale::to_string(plan.target), plan.threads, plan.unit, plan.strip,
                     plan.items_per_row);
}

}  // namespace rowscale::plan
