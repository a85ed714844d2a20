// The plan of a CUDA call as a value: printable, the same each time, within what its kernels are
// compiled for, and covering every element once. Units are counted here from shapes alone.
#include "plan/gpu_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/cuda/support/shapes.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::plan {
namespace {

using test::with;

int64_t round_up_divide(int64_t a, int64_t b) {
  return a / b + (a % b == 0 ? 0 : 1);
}

GpuProblem problem_of(const Recipe& recipe, GpuAccess access, int64_t batches, int64_t rows,
                      int64_t columns, int multiprocessors) {
  GpuProblem p;
  p.recipe = resolve(recipe);
  p.grid = ScaleGrid(p.recipe, rows, columns);
  p.access = access;
  p.batches = batches;
  p.rows = batches * rows;
  p.columns = columns;
  p.multiprocessors = multiprocessors;
  p.l2_bytes = int64_t{60} << 20;
  if (access == GpuAccess::vectors && batches == 1) p.scales = scales_of(p.recipe);
  return p;
}

// What shares a scale, from the recipe: the numbers of rows and columns of a unit, and of units.
struct Units {
  int64_t rows, columns, count;
};

Units units_of(const Recipe& recipe, int64_t batches, int64_t rows, int64_t columns) {
  switch (recipe.granularity) {
    case Granularity::per_group: {
      const int64_t size = std::min(recipe.group_size, columns);
      return {1, size, batches * rows * round_up_divide(columns, size)};
    }
    case Granularity::per_block: {
      const int64_t height = std::min(recipe.block_rows, std::max<int64_t>(rows, 1));
      const int64_t width = std::min(recipe.block_columns, columns);
      return {height, width,
              batches * round_up_divide(rows, height) * round_up_divide(columns, width)};
    }
    default:
      return {1, columns, batches * rows};
  }
}

std::string text_of(const GpuProblem& p, const GpuPlan& plan) {
  return to_string(p.recipe) + " rows " + std::to_string(p.rows) + " columns " +
         std::to_string(p.columns) + " access " + to_string(p.access) + ": " + to_string(plan);
}

// Empty where the plan reaches every element once.
std::string fault_of(const GpuProblem& p, const GpuPlan& plan, const Units& units) {
  if (plan.access != p.access) return "another access";
  if (plan.threads < 32 || plan.threads > 1024 || plan.threads % 32 != 0) return "threads";
  if (plan.blocks < 0) return "blocks";
  const int64_t chunks_of_row = round_up_divide(p.columns, kChunk);
  const int64_t chunks_of_unit = units.rows * round_up_divide(units.columns, kChunk);
  switch (plan.split) {
    case GpuSplit::norm: {
      const bool compiled =
          std::any_of(std::begin(kNormShapes), std::end(kNormShapes), [&](const NormShape& shape) {
            return shape.threads == plan.threads && shape.chunks == plan.chunks &&
                   serves(shape, p.residual);
          });
      if (!compiled) return "no such kernel";
      if (chunks_of_row > int64_t{plan.threads} * plan.chunks) return "a row that is not covered";
      return plan.blocks <= p.rows && (plan.blocks > 0) == (p.rows > 0) ? "" : "rows";
    }
    case GpuSplit::norm_team: {
      const bool compiled = std::any_of(
          std::begin(kNormTeamShapes), std::end(kNormTeamShapes), [&](const NormTeamShape& shape) {
            return shape.teams == plan.teams && shape.depth == plan.depth;
          });
      if (!compiled || plan.chunks != 4 || plan.threads > 768) return "no such kernel";
      // A thread takes four chunks; a team is of whole warps.
      if (plan.threads != plan.teams * (p.columns / 32) || p.columns % 1024 != 0) return "threads";
      if (p.residual != NormResidual::none || p.sink != GpuSink::codes) return "another call";
      if (plan.teams * plan.depth > 12) return "rings";
      // Rows of 16 bits and the weights; an fp32 sum a chunk, of whole rounds of 256, twice.
      const int64_t rows = (int64_t{plan.teams} * plan.depth + 1) * p.columns * 2;
      const int64_t sums = int64_t{plan.teams} * 2 * round_up_divide(p.columns, 2048) * 256 * 4;
      if (rows + sums > p.shared_bytes) return "shared memory";
      if ((plan.blocks > 0) != (p.rows > 0)) return "rows";
      return plan.blocks <= round_up_divide(p.rows, plan.teams) ? "" : "idle blocks";
    }
    case GpuSplit::norm_any:
      return plan.blocks == p.rows && plan.threads == kNormAnyThreads ? "" : "rows";
    case GpuSplit::groups: {
      const bool compiled = std::any_of(
          std::begin(kGroupsShapes), std::end(kGroupsShapes), [&](const GroupsShape& shape) {
            return shape.lanes == plan.lanes && shape.chunks == plan.chunks &&
                   serves(shape, plan.access, p.source);
          });
      if (!compiled) return "no such kernel";
      if (32 % plan.lanes != 0 || plan.threads > kGroupsThreads) return "lanes";
      if (units.rows != 1) return "a unit of several rows";
      if (chunks_of_unit > int64_t{plan.lanes} * plan.chunks) return "a unit that is not covered";
      const int64_t in_block = plan.threads / plan.lanes;
      const bool below = plan.units == GpuUnits::below;
      if (below && p.batches != 1) return "batches whose units lie below each other";
      const int64_t filled = round_up_divide(p.rows, 4) * 4;
      const int64_t count = below ? filled * p.grid.columns : units.count;
      if (plan.blocks != round_up_divide(count, in_block)) return "units";
      return {};
    }
    case GpuSplit::rows: {
      const auto shape = std::find_if(
          std::begin(kRowsShapes), std::end(kRowsShapes), [&](const RowsShape& candidate) {
            return candidate.chunks == plan.chunks && serves(candidate, plan.access, p.source);
          });
      if (shape == std::end(kRowsShapes) || plan.threads > shape->most_threads) {
        return "no such kernel";
      }
      if (units.rows != 1) return "a unit of several rows";
      if (plan.chunks > 0 && chunks_of_unit > int64_t{plan.threads} * plan.chunks) {
        return "a unit that is not covered";
      }
      return plan.blocks == units.count ? "" : "units";
    }
    case GpuSplit::blocks: {
      if (std::find(std::begin(kBlocksShapes), std::end(kBlocksShapes), plan.chunks) ==
              std::end(kBlocksShapes) ||
          plan.threads != kBlocksThreads) {
        return "no such kernel";
      }
      if (plan.chunks > 0 && chunks_of_unit > int64_t{plan.threads} * plan.chunks) {
        return "a unit that is not covered";
      }
      return plan.blocks == units.count ? "" : "units";
    }
    case GpuSplit::tensor: {
      // Both passes go round until all is done; the second one also writes the scale.
      if (plan.chunks != kGivenChunks || plan.threads != kGivenThreads) return "no such kernel";
      const int64_t a_block = int64_t{plan.chunks} * plan.threads;
      const int64_t needed = round_up_divide(p.rows * chunks_of_row, a_block);
      if (plan.blocks < 1 || plan.blocks > std::max<int64_t>(needed, 1)) return "blocks";
      if ((plan.partials == 0) != (needed == 0)) return "partials";
      return plan.partials <= std::min<int64_t>(needed, kMostPartials) ? "" : "partials";
    }
    case GpuSplit::given: {
      if (plan.chunks != kGivenChunks || plan.threads != kGivenThreads) return "no such kernel";
      const int64_t a_block = int64_t{plan.chunks} * plan.threads;
      return plan.blocks == round_up_divide(p.rows * chunks_of_row, a_block) ? "" : "elements";
    }
  }
  return "no such split";
}

std::vector<Recipe> planned_recipes(int64_t hidden) {
  std::vector<Recipe> recipes = test::all_recipes(128, 128, 128);
  for (int64_t size :
       {int64_t{1}, int64_t{3}, int64_t{16}, int64_t{24}, int64_t{32}, int64_t{64}, int64_t{100},
        int64_t{256}, int64_t{512}, int64_t{1000}, int64_t{4096}, hidden}) {
    recipes.push_back(per_group(size));
  }
  for (const Recipe& recipe :
       {per_block(64, 32), per_block(1, 128), per_block(3, 5), per_block(1000, 1000)}) {
    recipes.push_back(recipe);
  }
  for (const Recipe& recipe : {per_tensor(), per_token(), per_group(128), per_block(128, 128)}) {
    recipes.push_back(with(recipe, ScaleSource::given));
  }
  return recipes;
}

// visit(problem, units) for the cross of shapes, recipes, accesses and sizes of machine.
template <class Visit>
void for_each_problem(Visit&& visit) {
  for (const test::Matrix& shape : test::cross_shapes(-1, INT64_MAX)) {
    for (const Recipe& recipe : planned_recipes(shape.hidden)) {
      for (GpuAccess access : {GpuAccess::vectors, GpuAccess::elements}) {
        for (int multiprocessors : {1, 108, 132}) {
          visit(problem_of(recipe, access, 1, shape.tokens, shape.hidden, multiprocessors),
                units_of(recipe, 1, shape.tokens, shape.hidden));
        }
      }
    }
  }
}

TEST(GpuPlan, EveryShapeIsCoveredOnce) {
  int64_t plans = 0;
  for_each_problem([&](const GpuProblem& p, const Units& units) {
    for (const GpuPlan& plan : candidate_plans(p)) {
      ++plans;
      const std::string fault = fault_of(p, plan, units);
      ASSERT_TRUE(fault.empty()) << fault << ": " << text_of(p, plan);
    }
  });
  EXPECT_GT(plans, 100000);
}

TEST(GpuPlan, IsOneOfItsCandidatesAndTheSameEachTime) {
  for_each_problem([](const GpuProblem& p, const Units& /*units*/) {
    const GpuPlan plan = plan_gpu(p);
    const std::vector<GpuPlan> plans = candidate_plans(p);
    ASSERT_NE(std::find(plans.begin(), plans.end(), plan), plans.end()) << text_of(p, plan);
    ASSERT_EQ(plan, plan_gpu(p));
  });
}

TEST(GpuPlan, NothingToDoLaunchesNothing) {
  for (const Recipe& recipe : planned_recipes(640)) {
    const GpuPlan plan = plan_gpu(problem_of(recipe, GpuAccess::vectors, 1, 0, 640, 132));
    // The scale of a tensor is there without rows too.
    EXPECT_EQ(plan.blocks, plan.split == GpuSplit::tensor ? 1 : 0) << to_string(plan);
    EXPECT_EQ(plan.partials, 0) << to_string(plan);
  }
}

TEST(GpuPlan, BatchesEndBlocks) {
  // Two matrices of 130 rows have two blocks of rows each, not three in all.
  const Recipe recipe = per_block(128, 128);
  const GpuPlan plan = plan_gpu(problem_of(recipe, GpuAccess::vectors, 2, 130, 384, 132));
  EXPECT_EQ(plan.split, GpuSplit::blocks);
  EXPECT_EQ(plan.blocks, 2 * 2 * 3);
}

// Counts that fit in no 32 bits.
TEST(GpuPlan, MoreThanInt32) {
  const int64_t rows = (int64_t{1} << 33) + 1;
  const struct {
    Recipe recipe;
    Units units;
  } cases[] = {
      {per_token(), {1, 8, rows}},
      {per_group(1), {1, 1, rows * 8}},
      {per_tensor(), {1, 8, rows}},
      {with(per_token(), ScaleSource::given), {1, 8, rows}},
      {per_block(2, 4), {2, 4, (rows + 1) / 2 * 2}},
  };
  for (const auto& c : cases) {
    const GpuProblem p = problem_of(c.recipe, GpuAccess::elements, 1, rows, 8, 132);
    for (const GpuPlan& plan : candidate_plans(p)) {
      const std::string fault = fault_of(p, plan, c.units);
      EXPECT_TRUE(fault.empty()) << fault << ": " << text_of(p, plan);
    }
  }
}

// Whole chunks are counted in 32 bits. A grid's last block, and the pass that finds a tensor's amax
// by as many loads at once as its kernel makes, go on beyond the last position before they look
// whether it is there: on no machine may that overflow.
TEST(GpuPlan, PositionsOfWholeChunksFitInInt32) {
  constexpr int64_t kLoadsAtOnce = 4;  // of kernel/quantize_tensor.cuh
  for (int64_t columns : {int64_t{8}, int64_t{640}, int64_t{16384}, int64_t{65536}}) {
    for (const Recipe& recipe : {per_tensor(), per_token(), per_group(8),
                                 with(per_group(8), ScaleEncoding::f32, ScaleLayout::column_major),
                                 with(per_token(), ScaleSource::given)}) {
      const Recipe resolved = resolve(recipe);
      // Addresses alone; nothing is read.
      const auto access = [&](int64_t rows) {
        void* const address = reinterpret_cast<void*>(uintptr_t{1} << 40);
        const RowView x(TensorView::contiguous(address, DType::bf16, {rows, columns}));
        const RowView codes(TensorView::contiguous(address, DType::e4m3, {rows, columns}));
        return access_of(x, codes, ScaleGrid(resolved, rows, columns), resolved);
      };
      int64_t most = 1;  // rows by whole chunks
      for (int64_t step = int64_t{1} << 31; step > 0; step /= 2) {
        if (access(most + step) == GpuAccess::vectors) most += step;
      }
      ASSERT_EQ(access(most), GpuAccess::vectors);
      const int64_t chunks = most * (columns / kChunk);
      EXPECT_GT(chunks, INT32_MAX - (int64_t{1} << 22)) << "a border far below what is possible";
      for (int multiprocessors : {1, 30, 66, 108, 132, 148, 170, 171, 192, 1000, 1 << 20}) {
        const GpuProblem p =
            problem_of(recipe, GpuAccess::vectors, 1, most, columns, multiprocessors);
        for (const GpuPlan& plan : candidate_plans(p)) {
          int64_t last = 0;  // position that a thread may compute
          switch (plan.split) {
            case GpuSplit::groups:
              last = plan.blocks * (plan.threads / plan.lanes);
              break;
            case GpuSplit::tensor:
              last = chunks + kLoadsAtOnce * plan.partials * plan.threads;
              break;
            case GpuSplit::given:
              last = plan.blocks * plan.chunks * plan.threads;
              break;
            default:
              last = plan.blocks;
          }
          EXPECT_LE(last, INT32_MAX) << text_of(p, plan);
        }
      }
    }
  }
}

// Norms keep a row in registers where a kernel for its units is there, and otherwise read it again.
TEST(GpuPlan, NormsOfEveryLength) {
  const Recipe token = per_token();
  const Recipe given = with(per_tensor(), ScaleSource::given);
  for (NormResidual residual : {NormResidual::none, NormResidual::added}) {
    for (int64_t rows : {0, 1, 132, 133, 4096, 100000}) {
      for (int64_t columns : {8, 128, 640, 2048, 4096, 5120, 7168, 8192, 16384, 16392, 65536}) {
        for (const Recipe& recipe :
             {token, per_group(128), given, per_group(64), per_group(4096)}) {
          GpuProblem p = problem_of(recipe, GpuAccess::vectors, 1, rows, columns, 132);
          p.source = SourceKind::rms_norm;
          p.weights = NormWeights::words;
          p.residual = residual;
          const bool has_unit = recipe.scale_source == ScaleSource::given ||
                                recipe.granularity == Granularity::per_token ||
                                recipe.group_size == 128 || recipe.group_size >= columns;
          const GpuPlan plan = plan_gpu(p);
          EXPECT_EQ(plan.split, has_unit && columns <= 16384 ? GpuSplit::norm : GpuSplit::norm_any)
              << text_of(p, plan);
          for (const GpuPlan& candidate : candidate_plans(p)) {
            EXPECT_EQ(fault_of(p, candidate, units_of(p.recipe, 1, rows, columns)), "")
                << text_of(p, candidate);
          }
        }
      }
    }
  }
  GpuProblem p = problem_of(token, GpuAccess::vectors, 1, 4096, 4096, 132);
  p.source = SourceKind::rms_norm;
  p.weights = NormWeights::words;
  p.residual = NormResidual::added;
  p.residual_sum = ResidualSum::unrounded;
  EXPECT_EQ(plan_gpu(p).split, GpuSplit::norm_any);
  p.residual_sum = ResidualSum::rounded;
  EXPECT_EQ(plan_gpu(p).split, GpuSplit::norm);
  p.masks = RowMasks::counted;
  EXPECT_EQ(plan_gpu(p).split, GpuSplit::norm_any);
  p.masks = RowMasks::none;
  p.weights = NormWeights::any;
  EXPECT_EQ(plan_gpu(p).split, GpuSplit::norm_any);
}

GpuProblem norm_problem(const Recipe& recipe, int64_t rows, int64_t columns) {
  GpuProblem p = problem_of(recipe, GpuAccess::vectors, 1, rows, columns, 132);
  p.source = SourceKind::rms_norm;
  p.weights = NormWeights::words;
  p.shared_bytes = int64_t{227} << 10;  // of sm_90
  return p;
}

// Many rows of common lengths without a residual: a team for a row, where bulk copies are.
TEST(GpuPlan, NormsOfManyRowsByTeams) {
  for (int64_t rows : {0, 1, 2, 4096, 8191, 8192, 17083, 1000000}) {
    for (int64_t columns : {1024, 2048, 4096, 4224, 5120, 6144, 7168, 8192, 9216}) {
      for (const Recipe& recipe :
           {per_token(), per_group(128), with(per_token(), ScaleEncoding::ue8m0),
            with(per_group(128), ScaleEncoding::ue8m0_packed)}) {
        const GpuProblem p = norm_problem(recipe, rows, columns);
        const bool is_long = columns >= 4096 && columns <= 8192 && columns % 1024 == 0;
        const GpuPlan plan = plan_gpu(p);
        const bool is_slower = columns > 4096 && columns <= 5120 && recipe.group_size == 0;
        EXPECT_EQ(plan.split,
                  rows >= 8192 && is_long && !is_slower ? GpuSplit::norm_team : GpuSplit::norm)
            << text_of(p, plan);
        const std::vector<GpuPlan> plans = candidate_plans(p);
        EXPECT_NE(std::find(plans.begin(), plans.end(), plan), plans.end()) << text_of(p, plan);
        int64_t by_teams = 0;
        for (const GpuPlan& candidate : plans) {
          if (candidate.split == GpuSplit::norm_team) ++by_teams;
          EXPECT_EQ(fault_of(p, candidate, units_of(p.recipe, 1, rows, columns)), "")
              << text_of(p, candidate);
        }
        EXPECT_EQ(by_teams > 0, columns % 1024 == 0 && columns <= 8192) << text_of(p, plan);
      }
    }
  }
}

// The shapes that were the fastest on the machine with 132 multiprocessors.
TEST(GpuPlan, ShapesOfTeams) {
  const auto text = [](int64_t rows, int64_t columns) {
    const GpuPlan plan = plan_gpu(norm_problem(per_group(128), rows, columns));
    return std::to_string(plan.teams) + " " + std::to_string(plan.depth) + " " +
           std::to_string(plan.threads) + " " + std::to_string(plan.blocks);
  };
  EXPECT_EQ(text(17083, 4096), "3 2 384 264");
  EXPECT_EQ(text(17083, 5120), "4 3 640 132");
  EXPECT_EQ(text(17083, 7168), "3 2 672 132");
  EXPECT_EQ(text(17083, 8192), "3 2 768 132");
}

TEST(GpuPlan, WhatTeamsDoNotServe) {
  const auto split_of = [](auto&& change) {
    GpuProblem p = norm_problem(per_token(), 4096, 4096);
    change(p);
    for (const GpuPlan& plan : candidate_plans(p)) {
      if (plan.split == GpuSplit::norm_team) return GpuSplit::norm_team;
    }
    return plan_gpu(p).split;
  };
  EXPECT_EQ(split_of([](GpuProblem&) {}), GpuSplit::norm_team);
  EXPECT_EQ(split_of([](GpuProblem& p) { p.shared_bytes = 0; }), GpuSplit::norm);
  EXPECT_EQ(split_of([](GpuProblem& p) { p.residual = NormResidual::added; }), GpuSplit::norm);
  EXPECT_EQ(split_of([](GpuProblem& p) { p.sink = GpuSink::rows; }), GpuSplit::norm);
  EXPECT_EQ(split_of([](GpuProblem& p) {
              p = norm_problem(with(per_tensor(), ScaleSource::given), 4096, 4096);
            }),
            GpuSplit::norm);
  EXPECT_EQ(split_of([](GpuProblem& p) { p.weights = NormWeights::any; }), GpuSplit::norm_any);
  EXPECT_EQ(split_of([](GpuProblem& p) { p.masks = RowMasks::counted; }), GpuSplit::norm_any);
  EXPECT_EQ(split_of([](GpuProblem& p) { p.element_bytes = 4; }), GpuSplit::norm_any);
  EXPECT_EQ(split_of([](GpuProblem& p) {
              p = norm_problem(with(per_token(), Format::e5m2), 4096, 4096);
            }),
            GpuSplit::norm_any);
  // Less shared memory than the chosen shape needs: 99 KiB, of sm_120.
  GpuProblem p = norm_problem(per_token(), 17083, 4096);
  p.shared_bytes = int64_t{99} << 10;
  EXPECT_EQ(plan_gpu(p).split, GpuSplit::norm);
}

TEST(GpuPlan, PrintsItself) {
  GpuPlan plan;
  plan.split = GpuSplit::rows;
  plan.access = GpuAccess::elements;
  plan.lanes = 8;
  plan.chunks = 2;
  plan.threads = 192;
  plan.blocks = 4096;
  const std::string text = to_string(plan);
  EXPECT_EQ(text.find("gpu split=rows access=elements"), 0U) << text;
  for (const char* part : {" lanes=8", " chunks=2", " threads=192", " blocks=4096"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  plan.split = GpuSplit::norm_team;
  plan.unit = NormUnit::group;
  plan.teams = 3;
  plan.depth = 2;
  const std::string team_text = to_string(plan);
  EXPECT_NE(team_text.find("split=norm_team"), std::string::npos) << team_text;
  EXPECT_NE(team_text.find(" unit=group teams=3 depth=2"), std::string::npos) << team_text;
  EXPECT_STREQ(to_string(GpuSplit::tensor), "tensor");
  EXPECT_STREQ(to_string(GpuAccess::vectors), "vectors");
}

// Vectors only where every chunk is one aligned stretch in one unit.
TEST(GpuPlan, AccessFollowsAddressesAndStrides) {
  alignas(256) static std::byte memory[4096];
  const auto access = [&](DType dtype, int64_t x_shift, int64_t codes_shift, int64_t columns,
                          int64_t stride, const Recipe& recipe) {
    const RowView x(TensorView::strided(memory + x_shift, dtype, {2, columns}, {stride, 1}));
    const RowView codes(TensorView::contiguous(memory + codes_shift, DType::e4m3, {2, columns}));
    const Recipe resolved = resolve(recipe);
    return access_of(x, codes, ScaleGrid(resolved, 2, columns), resolved);
  };
  const auto yes = GpuAccess::vectors;
  const auto no = GpuAccess::elements;
  EXPECT_EQ(access(DType::bf16, 0, 0, 256, 256, per_group(128)), yes);
  EXPECT_EQ(access(DType::f32, 0, 0, 256, 256, per_token()), yes);
  EXPECT_EQ(access(DType::bf16, 16, 8, 256, 264, per_group(64)), yes);
  EXPECT_EQ(access(DType::bf16, 0, 0, 256, 256, per_group(20)), no);   // a chunk of two groups
  EXPECT_EQ(access(DType::bf16, 0, 0, 250, 256, per_group(128)), no);  // a chunk that ends early
  EXPECT_EQ(access(DType::bf16, 2, 0, 256, 256, per_group(128)), no);
  EXPECT_EQ(access(DType::bf16, 0, 4, 256, 256, per_group(128)), no);
  EXPECT_EQ(access(DType::bf16, 0, 0, 256, 260, per_group(128)), no);
  EXPECT_EQ(access(DType::f32, 8, 0, 256, 256, per_token()), no);
  // With scales that are given a chunk may have several.
  EXPECT_EQ(access(DType::bf16, 0, 0, 256, 256, with(per_group(20), ScaleSource::given)), yes);
  // Heads: columns that lie side by side only by runs.
  const RowView heads(
      TensorView::strided(memory, DType::bf16, {2, 3, 64}, {1000, 64, 1}).as_rows({1}, {0, 2}));
  const RowView codes(TensorView::contiguous(memory, DType::e4m3, {3, 128}));
  const Recipe recipe = resolve(per_group(64));
  EXPECT_EQ(access_of(heads, codes, ScaleGrid(recipe, 3, 128), recipe), GpuAccess::runs);
  const RowView narrow_heads(
      TensorView::strided(memory, DType::bf16, {2, 3, 60}, {1000, 60, 1}).as_rows({1}, {0, 2}));
  const RowView narrow_codes(TensorView::contiguous(memory, DType::e4m3, {3, 120}));
  EXPECT_EQ(access_of(narrow_heads, narrow_codes, ScaleGrid(recipe, 3, 120), recipe), no);
}

TEST(GpuPlan, UnitsLieBelowEachOtherForColumnMajorScalesAndPads) {
  const auto units_of = [](const Recipe& recipe, int64_t rows) {
    return plan_gpu(problem_of(recipe, GpuAccess::vectors, 1, rows, 7168, 132)).units;
  };
  const auto scales = [](ScaleEncoding encoding, ScaleLayout layout) {
    return with(per_group(128), encoding, layout);
  };
  const Recipe plain = scales(ScaleEncoding::f32, ScaleLayout::column_major);
  const Recipe tma = scales(ScaleEncoding::f32, ScaleLayout::column_major_tma);
  const Recipe tma_bytes = scales(ScaleEncoding::ue8m0, ScaleLayout::column_major_tma);
  const Recipe packed = with(per_group(128), ScaleEncoding::ue8m0_packed);
  for (int64_t rows : {4096, 4097}) {
    EXPECT_EQ(units_of(per_group(128), rows), GpuUnits::beside);
    EXPECT_EQ(units_of(plain, rows), GpuUnits::below);
    EXPECT_EQ(units_of(tma, rows), GpuUnits::below);
    EXPECT_EQ(units_of(tma_bytes, rows), GpuUnits::below);
    EXPECT_EQ(units_of(packed, rows), GpuUnits::beside);  // four in a word
  }
  // Few rows: only where three pads of four bytes have units of their own.
  EXPECT_EQ(units_of(plain, 1), GpuUnits::beside);
  EXPECT_EQ(units_of(tma, 1), GpuUnits::below);
  EXPECT_EQ(units_of(tma, 4), GpuUnits::beside);
  EXPECT_EQ(units_of(tma_bytes, 1), GpuUnits::beside);
  EXPECT_EQ(units_of(packed, 1), GpuUnits::below);
}

TEST(GpuPlan, TensorsOfAFifthOfTheCacheAreStreamed) {
  const auto loads_of = [](int64_t rows, int64_t l2_mib) {
    GpuProblem p = problem_of(per_group(128), GpuAccess::vectors, 1, rows, 4096, 132);
    p.l2_bytes = l2_mib << 20;
    return plan_gpu(p).loads;
  };
  // 12,288 bytes a row: bf16 and codes.
  EXPECT_EQ(loads_of(42, 60), GpuLoads::cached);
  EXPECT_EQ(loads_of(43, 60), GpuLoads::streaming);    // from 512 KiB
  EXPECT_EQ(loads_of(1024, 60), GpuLoads::streaming);  // 12 MiB
  EXPECT_EQ(loads_of(1025, 60), GpuLoads::cached);
  EXPECT_EQ(loads_of(1024, 40), GpuLoads::cached);
}

}  // namespace
}  // namespace rowscale::plan
