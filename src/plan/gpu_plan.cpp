#include "plan/gpu_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "plan/unit_walk.hpp"

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

// Whether the kernels that keep a row in registers know the call's units.
bool has_norm_unit(const GpuProblem& p) {
  const bool is_common =
      p.access == GpuAccess::vectors && p.weights == NormWeights::words && p.element_bytes == 2 &&
      p.batches == 1 && p.masks == RowMasks::none &&
      (p.residual == NormResidual::none || p.residual_sum == ResidualSum::rounded);
  if (!is_common || p.sink == GpuSink::rows) return is_common;
  if (p.recipe.format != Format::e4m3) return false;
  if (p.recipe.scale_source == ScaleSource::given) return p.grid.rows == 1 && p.grid.columns == 1;
  return p.scales != GpuScales::general &&
         (p.grid.unit_columns >= p.columns || p.grid.unit_columns == kNormGroup);
}

NormUnit norm_unit(const GpuProblem& p) {
  if (p.sink == GpuSink::rows) return NormUnit::none;
  if (p.recipe.scale_source == ScaleSource::given) return NormUnit::given;
  return p.grid.unit_columns >= p.columns ? NormUnit::row : NormUnit::group;
}

bool fits_norm(const GpuProblem& p, NormShape shape) {
  return serves(shape, p.residual) &&
         ceil_div(p.columns, kChunk) <= int64_t{shape.threads} * shape.chunks;
}

GpuSplit split_of(const GpuProblem& p) {
  if (p.source == SourceKind::rms_norm) {
    return has_norm_unit(p) && fits_norm(p, kNormShapes[std::size(kNormShapes) - 1])
               ? GpuSplit::norm
               : GpuSplit::norm_any;
  }
  if (p.sink == GpuSink::rows || p.recipe.scale_source == ScaleSource::given) {
    return GpuSplit::given;
  }
  if (p.recipe.granularity == Granularity::per_tensor) return GpuSplit::tensor;
  return p.recipe.granularity == Granularity::per_block && p.grid.unit_rows > 1 ? GpuSplit::blocks
                                                                                : GpuSplit::groups;
}

// Tensors from here to a fifth of the second-level cache pass through it faster where their lines
// leave first, smaller and larger ones the opposite: measured on an H200, with 60 MiB of cache
// (docs/performance.md).
constexpr int64_t kLeastStreamedBytes = int64_t{1} << 19;
constexpr int64_t kStreamedShare = 5;

GpuPlan base_plan(const GpuProblem& p, GpuSplit split) {
  GpuPlan plan;
  plan.split = split;
  plan.access = p.access;
  plan.scales = p.scales;
  const int64_t bytes = p.rows * p.columns * (p.element_bytes + 1);
  const bool is_streamed = bytes >= kLeastStreamedBytes && bytes <= p.l2_bytes / kStreamedShare;
  plan.loads = is_streamed ? GpuLoads::streaming : GpuLoads::cached;
  return plan;
}

// Rows of whole fours.
int64_t filled_rows(const GpuProblem& p) {
  constexpr int64_t kRows = UnitsBelow<int32_t>::kRows;
  return ceil_div(p.rows, kRows) * kRows;
}

// Whether units may lie below each other: the scales of a column do, or their words.
bool may_lie_below(const GpuProblem& p) {
  const ScaleStrides strides = scale_strides(p.recipe, p.grid);
  return p.scales != GpuScales::general && strides.row == 1 && strides.columns > 1 &&
         filled_rows(p) * p.grid.columns <= kMostPositions;
}

// Few units: where all pads have units, which then cost no code of their own. Many: where a warp's
// scales fall into one sector instead of one each; those of packed words do already.
GpuUnits choose_units(const GpuProblem& p, bool few) {
  if (!may_lie_below(p)) return GpuUnits::beside;
  const bool is_packed = p.recipe.encoding == ScaleEncoding::ue8m0_packed;
  const int64_t pads_end = scale_strides(p.recipe, p.grid).column;
  const bool fills_pads = pads_end > p.rows && pads_end == filled_rows(p);
  return (few ? fills_pads : !is_packed) ? GpuUnits::below : GpuUnits::beside;
}

GpuPlan groups_plan(const GpuProblem& p, GroupsShape shape, int threads, GpuUnits units) {
  const int64_t units_per_block = threads / shape.lanes;
  GpuPlan plan = base_plan(p, GpuSplit::groups);
  plan.lanes = shape.lanes;
  plan.units = units;
  plan.chunks = shape.chunks;
  plan.threads = threads;
  // Rows that only fill up have units too.
  const int64_t count = units == GpuUnits::beside ? units_of(p) : filled_rows(p) * p.grid.columns;
  plan.blocks = ceil_div(count, units_per_block);
  return plan;
}

GpuPlan rows_plan(const GpuProblem& p, RowsShape shape) {
  const int64_t wanted =
      shape.chunks == 0 ? shape.most_threads : ceil_div(unit_chunks(p), shape.chunks);
  const int64_t threads = std::min<int64_t>(ceil_div(wanted, 32) * 32, shape.most_threads);
  GpuPlan plan = base_plan(p, GpuSplit::rows);
  plan.chunks = shape.chunks;
  plan.threads = static_cast<int>(threads);
  plan.blocks = units_of(p);
  return plan;
}

GpuPlan blocks_plan(const GpuProblem& p, int chunks) {
  GpuPlan plan = base_plan(p, GpuSplit::blocks);
  plan.chunks = chunks;
  plan.threads = kBlocksThreads;
  plan.blocks = units_of(p);
  return plan;
}

bool fits(const GpuProblem& p, GroupsShape shape) {
  const int64_t n = unit_chunks(p);
  if (n > int64_t{shape.lanes} * shape.chunks) return false;
  if (is_made(p.source) || p.access != GpuAccess::vectors) return serves(shape, p.access, p.source);
  // A shape of twice the lanes that are needed leaves half of them idle.
  return shape.lanes == 1 || n > int64_t{shape.lanes / 2} * shape.chunks;
}

bool fits(const GpuProblem& p, RowsShape shape) {
  if (!serves(shape, p.access, p.source)) return false;
  return shape.chunks == 0 || unit_chunks(p) <= int64_t{shape.chunks} * shape.most_threads;
}

GpuPlan elementwise_plan(const GpuProblem& p, GpuSplit split) {
  const int64_t chunks = p.rows * ceil_div(p.columns, kChunk);
  GpuPlan plan = base_plan(p, split);
  plan.scales = GpuScales::general;
  plan.chunks = kGivenChunks;
  plan.threads = kGivenThreads;
  plan.blocks = ceil_div(chunks, int64_t{kGivenChunks} * kGivenThreads);
  return plan;
}

// Both passes go round with the blocks that a machine holds at once.
GpuPlan tensor_plan(const GpuProblem& p) {
  GpuPlan plan = elementwise_plan(p, GpuSplit::tensor);
  plan.loads = GpuLoads::cached;  // the second pass reads the input again
  const int64_t held = int64_t{p.multiprocessors} * 6;
  plan.partials = static_cast<int>(std::min<int64_t>({plan.blocks, held, kMostPartials}));
  // No rows: the scale is still written.
  plan.blocks = std::clamp<int64_t>(plan.blocks, 1, held);
  return plan;
}

GpuPlan norm_plan(const GpuProblem& p, NormShape shape) {
  GpuPlan plan = base_plan(p, GpuSplit::norm);
  plan.unit = norm_unit(p);
  plan.residual = p.residual;
  if (plan.unit == NormUnit::given || plan.unit == NormUnit::none) {
    plan.scales = GpuScales::general;
  }
  plan.threads = shape.threads;
  plan.chunks = shape.chunks;
  plan.blocks = std::min(p.rows, int64_t{p.multiprocessors} * resident_blocks(shape, p.residual));
  return plan;
}

// Of a multiprocessor's shared memory the system takes as much for each block, and a block may have
// all of the rest.
constexpr int64_t kReservedSharedBytes = 1024;

bool fits_team(const GpuProblem& p, NormTeamShape shape) {
  const bool is_common = p.source == SourceKind::rms_norm && has_norm_unit(p) &&
                         p.residual == NormResidual::none && p.columns > 0 &&
                         p.columns % kNormTeamColumns == 0 &&
                         p.columns <= kMostNormTeamRounds * kTreeColumns;
  if (!is_common || (norm_unit(p) != NormUnit::row && norm_unit(p) != NormUnit::group)) {
    return false;
  }
  const int64_t needed = norm_team_shared_bytes(shape.teams, shape.depth, p.columns) +
                         kNormTeamStaticBytes + kReservedSharedBytes;
  return shape.teams * norm_team_threads(p.columns) <= kMostNormTeamThreads &&
         needed * shape.resident <= p.shared_bytes + kReservedSharedBytes;
}

GpuPlan norm_team_plan(const GpuProblem& p, NormTeamShape shape) {
  GpuPlan plan = base_plan(p, GpuSplit::norm_team);
  plan.loads = GpuLoads::cached;  // copies know no other
  plan.unit = norm_unit(p);
  plan.chunks = kNormTeamChunks;
  plan.teams = shape.teams;
  plan.depth = shape.depth;
  plan.threads = shape.teams * norm_team_threads(p.columns);
  plan.blocks =
      std::min(ceil_div(p.rows, shape.teams), int64_t{p.multiprocessors} * shape.resident);
  return plan;
}

// Measured on an H200, candidates beside each other: at 17083 rows teams take 0.83 to 0.98 of the
// time of `norm`, at 4096 rows more than it, because a team then has few rows to hide the beginning
// behind. Shorter rows were not measured.
constexpr int64_t kLeastTeamRows = 8192;
constexpr int64_t kLeastTeamColumns = 4096;

struct NormTeamChoice {
  int64_t most_columns;
  NormUnit slower;  // that `norm` makes faster; given: none
  NormTeamShape shape;
};
constexpr NormTeamChoice kNormTeamChoices[] = {
    {4096, NormUnit::given, {3, 2, 2}},
    {5120, NormUnit::row, {4, 3, 1}},
    {7168, NormUnit::given, {3, 2, 1}},
    {8192, NormUnit::given, {3, 2, 1}},
};

std::optional<NormTeamShape> team_shape(const GpuProblem& p) {
  if (p.rows < kLeastTeamRows || p.columns < kLeastTeamColumns) return {};
  for (const NormTeamChoice& choice : kNormTeamChoices) {
    if (p.columns > choice.most_columns) continue;
    if (norm_unit(p) != choice.slower && fits_team(p, choice.shape)) return choice.shape;
    break;
  }
  return {};
}

GpuPlan norm_any_plan(const GpuProblem& p) {
  GpuPlan plan = base_plan(p, GpuSplit::norm_any);
  plan.scales = GpuScales::general;
  plan.chunks = 0;
  plan.threads = kNormAnyThreads;
  plan.blocks = p.rows;
  return plan;
}

GpuPlan choose_norm(const GpuProblem& p) {
  if (const auto shape = team_shape(p)) return norm_team_plan(p, *shape);
  const bool few = p.rows <= p.multiprocessors;
  for (const NormShape& shape : kNormShapes) {
    if (fits_norm(p, shape) && (shape.threads >= kWideNormThreads || !few)) {
      return norm_plan(p, shape);
    }
  }
  return norm_plan(p, kNormShapes[std::size(kNormShapes) - 1]);
}

// Two chunks a thread, the fewest lanes that hold the unit. Few units: small blocks, spread over
// more multiprocessors.
GpuPlan choose_groups(const GpuProblem& p) {
  for (const GroupsShape& shape : kGroupsShapes) {
    if ((shape.chunks != 2 && unit_chunks(p) != 1) || !fits(p, shape)) continue;
    const bool few = units_of(p) * shape.lanes <= int64_t{p.multiprocessors} * 512;
    return groups_plan(p, shape, few ? kGroupsThreads / 2 : kGroupsThreads, choose_units(p, few));
  }
  return {};  // not reached: the widest shape fits
}

// Four chunks a thread for long units, whose barrier would otherwise wait for more than eight
// warps; two for others, and one where there are too few units to fill the machine.
GpuPlan choose_rows(const GpuProblem& p) {
  const bool few = units_of(p) <= 2 * int64_t{p.multiprocessors};
  const int least = unit_chunks(p) > 512 ? 4 : (few ? 1 : 2);
  for (const RowsShape& shape : kRowsShapes) {
    if ((shape.chunks == 0 || shape.chunks >= least) && fits(p, shape)) return rows_plan(p, shape);
  }
  return {};  // not reached: the shape that reads twice fits everything
}

// Lanes of a warp for a unit up to this; a block of threads for a longer one.
constexpr int64_t kMostGroupChunks = 64;

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
    case GpuSplit::norm:
      return "norm";
    case GpuSplit::norm_team:
      return "norm_team";
    case GpuSplit::norm_any:
      return "norm_any";
  }
  return "unknown";
}

const char* to_string(NormUnit unit) {
  switch (unit) {
    case NormUnit::row:
      return "row";
    case NormUnit::group:
      return "group";
    case NormUnit::given:
      return "given";
    case NormUnit::none:
      return "none";
  }
  return "unknown";
}

const char* to_string(NormResidual residual) {
  return residual == NormResidual::none ? "none" : "added";
}

const char* to_string(SourceKind kind) {
  switch (kind) {
    case SourceKind::plain:
      return "plain";
    case SourceKind::dequantized:
      return "dequantized";
    case SourceKind::rms_norm:
      return "rms_norm";
    case SourceKind::silu_mul:
      return "silu_mul";
    case SourceKind::gelu_tanh_mul:
      return "gelu_tanh_mul";
    case SourceKind::relu2:
      return "relu2";
    case SourceKind::swiglu_clamped:
      return "swiglu_clamped";
  }
  return "unknown";
}

const char* to_string(GpuAccess access) {
  switch (access) {
    case GpuAccess::vectors:
      return "vectors";
    case GpuAccess::runs:
      return "runs";
    case GpuAccess::elements:
      return "elements";
  }
  return "unknown";
}

const char* to_string(GpuScales scales) {
  switch (scales) {
    case GpuScales::floats:
      return "floats";
    case GpuScales::powers:
      return "powers";
    case GpuScales::general:
      return "general";
  }
  return "unknown";
}

const char* to_string(GpuUnits units) {
  return units == GpuUnits::beside ? "beside" : "below";
}

const char* to_string(GpuLoads loads) {
  return loads == GpuLoads::cached ? "cached" : "streaming";
}

std::string to_string(const GpuPlan& plan) {
  std::string text = fmt::format(
      "gpu split={} access={} scales={} loads={} units={} lanes={} chunks={} threads={} blocks={} "
      "partials={}",
      to_string(plan.split), to_string(plan.access), to_string(plan.scales), to_string(plan.loads),
      to_string(plan.units), plan.lanes, plan.chunks, plan.threads, plan.blocks, plan.partials);
  if (plan.split == GpuSplit::norm) {
    text += fmt::format(" unit={} residual={}", to_string(plan.unit), to_string(plan.residual));
  } else if (plan.split == GpuSplit::norm_team) {
    text += fmt::format(" unit={} teams={} depth={}", to_string(plan.unit), plan.teams, plan.depth);
  }
  return text;
}

GpuScales scales_of(const Recipe& recipe) {
  // A smaller floor lets a scale leave the range of the fast quotient.
  constexpr float kLeastAmax = 0x1p-64F;
  const bool has_floor =
      (recipe.floor.kind == FloorKind::amax || recipe.floor.kind == FloorKind::scale) &&
      recipe.floor.value >= kLeastAmax;
  const bool is_short = recipe.scale_source == ScaleSource::dynamic && has_floor &&
                        recipe.bound.kind == BoundKind::none && recipe.quotient == Quotient::divide;
  if (!is_short) return GpuScales::general;
  return recipe.encoding == ScaleEncoding::f32 ? GpuScales::floats : GpuScales::powers;
}

bool lies_in_chunks(const RowView& view) {
  const int64_t bytes = std::min<int64_t>(kChunk * view.element_bytes(), 16);
  return view.is_strided() && view.row_stride() % bytes == 0 && view.row_stride() >= 0 &&
         view.row_stride() <= 0x7FFFFFFF &&
         reinterpret_cast<uintptr_t>(view.address(0, 0)) % static_cast<uintptr_t>(bytes) == 0;
}

bool lies_in_runs_of_chunks(const RowView& view) {
  const int64_t bytes = std::min<int64_t>(kChunk * view.element_bytes(), 16);
  const auto is_whole = [bytes](int64_t stride) {
    return stride % bytes == 0 && stride >= 0 && stride <= 0x7FFFFFFF;
  };
  return view.is_strided_by_runs() && view.run() % kChunk == 0 && is_whole(view.row_stride()) &&
         is_whole(view.run_stride()) &&
         reinterpret_cast<uintptr_t>(view.address(0, 0)) % static_cast<uintptr_t>(bytes) == 0;
}

GpuAccess access_of(const RowView& from, const RowView& to, const ScaleGrid& grid,
                    const Recipe& recipe) {
  const bool units_are_whole_chunks = grid.unit_columns % kChunk == 0 ||
                                      grid.unit_columns >= to.columns() ||
                                      recipe.scale_source == ScaleSource::given;
  const bool is_narrow =
      from.columns() <= kMostColumns &&
      from.rows() * std::max<int64_t>(from.columns() / kChunk, grid.columns) <= kMostPositions;
  const bool is_whole = is_narrow && to.columns() % kChunk == 0 && units_are_whole_chunks;
  if (!is_whole) return GpuAccess::elements;
  if (lies_in_chunks(from) && lies_in_chunks(to)) return GpuAccess::vectors;
  const bool is_by_runs = lies_in_runs_of_chunks(from) && lies_in_runs_of_chunks(to);
  return is_by_runs ? GpuAccess::runs : GpuAccess::elements;
}

GpuPlan plan_gpu(const GpuProblem& p) {
  switch (split_of(p)) {
    case GpuSplit::blocks: {
      const bool held = unit_chunks(p) <= int64_t{kBlocksShapes[0]} * kBlocksThreads;
      return blocks_plan(p, held ? kBlocksShapes[0] : 0);
    }
    case GpuSplit::tensor:
      return tensor_plan(p);
    case GpuSplit::given:
      return elementwise_plan(p, GpuSplit::given);
    case GpuSplit::norm:
      return choose_norm(p);
    case GpuSplit::norm_any:
      return norm_any_plan(p);
    default:
      return unit_chunks(p) <= kMostGroupChunks ? choose_groups(p) : choose_rows(p);
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
      plans.push_back(plan_gpu(p));
      break;
    case GpuSplit::norm:
      for (const NormShape& shape : kNormShapes) {
        if (fits_norm(p, shape)) plans.push_back(norm_plan(p, shape));
      }
      for (const NormTeamShape& shape : kNormTeamShapes) {
        if (fits_team(p, shape)) plans.push_back(norm_team_plan(p, shape));
      }
      plans.push_back(norm_any_plan(p));
      break;
    case GpuSplit::norm_any:
      plans.push_back(norm_any_plan(p));
      break;
    default:
      for (const GroupsShape& shape : kGroupsShapes) {
        if (!fits(p, shape)) continue;
        for (int threads : {64, 128, kGroupsThreads}) {
          plans.push_back(groups_plan(p, shape, threads, GpuUnits::beside));
          if (may_lie_below(p)) {
            plans.push_back(groups_plan(p, shape, threads, GpuUnits::below));
          }
        }
      }
      for (const RowsShape& shape : kRowsShapes) {
        if (fits(p, shape)) plans.push_back(rows_plan(p, shape));
      }
  }
  // With both kinds of loads, and by the general rule.
  for (size_t i = 0, count = plans.size(); i < count; ++i) {
    GpuPlan plan = plans[i];
    if (plan.split == GpuSplit::norm_team) continue;
    plan.loads = plan.loads == GpuLoads::cached ? GpuLoads::streaming : GpuLoads::cached;
    plans.push_back(plan);
    const bool has_general = plan.split != GpuSplit::norm && plan.units == GpuUnits::beside &&
                             plan.access != GpuAccess::runs;
    if (plan.scales == GpuScales::general || !has_general) continue;
    plan.scales = GpuScales::general;
    plans.push_back(plan);
  }
  return plans;
}

}  // namespace rowscale::plan
