#include "plan/gpu_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rowscale::plan {
namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// Chunks of a unit; a tile's rows one after the other.
int64_t unit_chunks(const GpuProblem& p) {
  return p.grid.unit_rows * ceil_div(p.grid.unit_columns, kChunk);
}

int64_t units_of(const GpuProblem& p) {
  return p.grid.unit_rows == 1 ? p.rows * p.grid.columns : p.batches * p.grid.rows * p.grid.columns;
}

GpuSplit split_of(const GpuProblem& p) {
  if (p.recipe.scale_source == ScaleSource::given) return GpuSplit::given;
  if (p.recipe.granularity == Granularity::per_tensor) return GpuSplit::tensor;
  return p.recipe.granularity == Granularity::per_block && p.grid.unit_rows > 1 ? GpuSplit::blocks
                                                                                : GpuSplit::groups;
}

GpuPlan groups_plan(const GpuProblem& p, GroupsShape shape, int threads) {
  const int64_t units_per_block = threads / shape.lanes;
  return {GpuSplit::groups, p.access, shape.lanes,
          shape.chunks,     threads,  ceil_div(units_of(p), units_per_block)};
}

GpuPlan rows_plan(const GpuProblem& p, RowsShape shape) {
  const int64_t wanted =
      shape.chunks == 0 ? shape.most_threads : ceil_div(unit_chunks(p), shape.chunks);
  const int64_t threads = std::min<int64_t>(ceil_div(wanted, 32) * 32, shape.most_threads);
  return {GpuSplit::rows, p.access, 1, shape.chunks, static_cast<int>(threads), units_of(p)};
}

GpuPlan blocks_plan(const GpuProblem& p, int chunks) {
  return {GpuSplit::blocks, p.access, 1, chunks, kBlocksThreads, units_of(p)};
}

bool fits(const GpuProblem& p, GroupsShape shape) {
  const int64_t n = unit_chunks(p);
  if (n > int64_t{shape.lanes} * shape.chunks) return false;
  if (p.access == GpuAccess::elements) return serves(shape, p.access);
  // A shape of twice the lanes that are needed leaves half of them idle.
  return shape.lanes == 1 || n > int64_t{shape.lanes / 2} * shape.chunks;
}

bool fits(const GpuProblem& p, RowsShape shape) {
  if (!serves(shape, p.access)) return false;
  return shape.chunks == 0 || unit_chunks(p) <= int64_t{shape.chunks} * shape.most_threads;
}

GpuPlan elementwise_plan(const GpuProblem& p, GpuSplit split) {
  const int64_t chunks = p.rows * ceil_div(p.columns, kChunk);
  return {split,        p.access,      1,
          kGivenChunks, kGivenThreads, ceil_div(chunks, int64_t{kGivenChunks} * kGivenThreads)};
}

// Blocks of threads that fill the machine once.
int64_t one_wave(const GpuProblem& p, int threads) {
  return int64_t{p.multiprocessors} * (2048 / threads);
}

GpuPlan choose_groups(const GpuProblem& p, GroupsShape shape) {
  // Few units: small blocks spread over more multiprocessors.
  const int64_t lanes = units_of(p) * shape.lanes;
  const int threads = lanes <= int64_t{p.multiprocessors} * 256 ? 64 : kGroupsThreads;
  return groups_plan(p, shape, threads);
}

// Lanes of a warp for a unit up to this; a block of threads for a longer one.
constexpr int64_t kMostGroupChunks = 64;

GpuPlan choose(const GpuProblem& p) {
  const int64_t n = unit_chunks(p);
  if (n <= kMostGroupChunks) {
    // Two chunks a thread, the fewest lanes that hold the unit.
    for (const GroupsShape& shape : kGroupsShapes) {
      if ((shape.chunks == 2 || n == 1) && fits(p, shape)) return choose_groups(p, shape);
    }
  }
  const bool few = units_of(p) <= 2 * one_wave(p, 256);
  for (const RowsShape& shape : kRowsShapes) {
    const bool wide_enough = few || shape.chunks >= 4 || shape.chunks == 0;
    if (wide_enough && fits(p, shape)) return rows_plan(p, shape);
  }
  return {};  // not reached: the shape that reads twice fits everything
}

}  // namespace

const char* to_string(GpuSplit split) {
  switch (split) {
    case GpuSplit::groups:
      return "groups";
    case GpuSplit::rows:
      return "rows";
    case GpuSplit::blocks:
      return "blocks";
    case GpuSplit::tensor:
      return "tensor";
    case GpuSplit::given:
      return "given";
  }
  return "unknown";
}

const char* to_string(GpuAccess access) {
  return access == GpuAccess::vectors ? "vectors" : "elements";
}

std::string to_string(const GpuPlan& plan) {
  return fmt::format("gpu split={} access={} lanes={} chunks={} threads={} blocks={}",
                     to_string(plan.split), to_string(plan.access), plan.lanes, plan.chunks,
                     plan.threads, plan.blocks);
}

GpuAccess access_of(const RowView& from, const RowView& to, const ScaleGrid& grid,
                    const Recipe& recipe) {
  const auto is_aligned = [](const RowView& view) {
    const int64_t bytes = std::min<int64_t>(kChunk * view.element_bytes(), 16);
    return view.is_strided() && view.row_stride() % bytes == 0 &&
           reinterpret_cast<uintptr_t>(view.address(0, 0)) % static_cast<uintptr_t>(bytes) == 0;
  };
  const bool units_are_whole_chunks = grid.unit_columns % kChunk == 0 ||
                                      grid.unit_columns >= from.columns() ||
                                      recipe.scale_source == ScaleSource::given;
  return from.columns() % kChunk == 0 && units_are_whole_chunks && is_aligned(from) &&
                 is_aligned(to)
             ? GpuAccess::vectors
             : GpuAccess::elements;
}

GpuPlan plan_gpu(const GpuProblem& p) {
  switch (split_of(p)) {
    case GpuSplit::blocks: {
      const bool held = unit_chunks(p) <= int64_t{kBlocksShapes[0]} * kBlocksThreads;
      return blocks_plan(p, held ? kBlocksShapes[0] : 0);
    }
    case GpuSplit::tensor:
    case GpuSplit::given:
      return elementwise_plan(p, split_of(p));
    default:
      return choose(p);
  }
}

std::vector<GpuPlan> candidate_plans(const GpuProblem& p) {
  std::vector<GpuPlan> plans;
  switch (split_of(p)) {
    case GpuSplit::blocks:
      for (int chunks : kBlocksShapes) {
        if (unit_chunks(p) <= int64_t{chunks} * kBlocksThreads || chunks == 0) {
          plans.push_back(blocks_plan(p, chunks));
        }
      }
      break;
    case GpuSplit::tensor:
    case GpuSplit::given:
      plans.push_back(elementwise_plan(p, split_of(p)));
      break;
    default:
      for (const GroupsShape& shape : kGroupsShapes) {
        if (!fits(p, shape)) continue;
        for (int threads : {64, 128, kGroupsThreads})
          plans.push_back(groups_plan(p, shape, threads));
      }
      for (const RowsShape& shape : kRowsShapes) {
        if (fits(p, shape)) plans.push_back(rows_plan(p, shape));
      }
  }
  return plans;
}

}  // namespace rowscale::plan
