// Every plan that serves a norm or an activation gives the same bits: the sum of a norm too, by
// whatever number of threads and rows of a block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "cuda/devices.hpp"
#include "plan/gpu_plan.hpp"
#include "tests/cuda/support/call_parts.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/fused_plans.hpp"
#include "tests/cuda/support/graph.hpp"
#include "tests/cuda/support/shapes.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

// The case by each of its candidates in turn; the plans are those of its arguments where they lie.
std::string compare_every_plan(Lane& lane, const FusedCase& c, FusedCall call) {
  size_t count = 1;
  for (size_t i = 0; i < count; ++i) {
    lane.reset();
    const FusedSlots slots = reserve(lane, c, call);
    std::string forced;
    const auto difference = lane.compare({}, 0, [&](const Side& side) -> Status {
      if (!side.is_gpu()) return call_on(side, c, slots, call);
      PlannedFused planned;
      if (Status s = plan_on(side, c, slots, call, &planned); !s.ok()) return s;
      const std::vector<plan::GpuPlan> plans = plan::candidate_plans(planned.problem);
      if (std::find(plans.begin(), plans.end(), plan::plan_gpu(planned.problem)) == plans.end()) {
        return {StatusCode::unsupported, "the chosen plan is not among the candidates"};
      }
      count = plans.size();
      forced = plan::to_string(plans[i]);
      return call_by_plan(side, planned, slots, call, plans[i]);
    });
    if (difference) {
      return "  " + to_string(c, call) + "\n    forced: " + forced + "\n    " + difference->text;
    }
  }
  return {};
}

std::vector<Recipe> planned_recipes() {
  return {per_token(),
          with(per_channel(), Format::e5m2),
          per_group(128),
          with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma),
          with(per_group(128), ScaleEncoding::ue8m0_packed),
          with(per_group(16), ScaleEncoding::ue8m0),
          per_group(64),
          per_group(7),
          per_group(1000),
          with(per_group(4096), Format::e5m2),
          with(per_tensor(), ScaleSource::given),
          with(per_token(), ScaleSource::given),
          by_reciprocal(bounded(per_token(), {BoundKind::amax, 1.5F}))};
}

// The results' shapes: borders of a warp, of a block, of its registers, and rows beyond them.
std::vector<Matrix> planned_shapes() {
  std::vector<Matrix> shapes(std::begin(kFewShapes), std::end(kFewShapes));
  for (const Matrix& shape :
       {Matrix{1, 4096}, Matrix{1, 5120}, Matrix{33, 7168}, Matrix{17, 2048}, Matrix{2, 4104},
        Matrix{5, 8192}, Matrix{3, 12296}, Matrix{2, 40000}, Matrix{300, 512}}) {
    shapes.push_back(shape);
  }
  return shapes;
}

std::vector<FusedCase> planned_cases() {
  std::vector<FusedCase> cases;
  for (const Matrix& shape : planned_shapes()) {
    for (const Producer& producer : kProducers) {
      for (const Recipe& recipe : planned_recipes()) {
        for (DType dtype : kFloats) {
          const size_t i = cases.size();
          FusedCase c = fused_case(producer, recipe, PoolKind::finite, dtype,
                                   {shape.tokens, shape.hidden}, i);
          c.producer.weight = i % 2 == 0 ? dtype : kFloats[i / 2 % 3];
          c.producer.form = i % 4 < 2 ? NormForm::standard : NormForm::gemma;
          c.row_out = i % 3 == 0 ? RowOut::stored : RowOut::absent;
          if (i % 5 == 4) c.counts = {static_cast<int32_t>(shape.tokens - shape.tokens / 3)};
          if (i % 7 == 6) c.shift.x = element_size(dtype);
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

// Norms by every shape of teams on one block and on two: fewer rows than teams, one for each, one
// round of the rings, and rounds of which the last is not full.
constexpr int64_t kTeamRows[] = {1, 3, 8, 9, 12, 31};
constexpr int64_t kTeamColumns[] = {1024, 3072, 4096, 5120, 7168, 8192};

std::vector<Recipe> team_recipes() {
  std::vector<Recipe> recipes = group_recipes(128);
  for (ScaleEncoding encoding : kUnpackedEncodings) recipes.push_back(with(per_token(), encoding));
  return recipes;
}

std::vector<FusedCase> team_cases() {
  std::vector<FusedCase> cases;
  for (int64_t columns : kTeamColumns) {
    for (int64_t rows : kTeamRows) {
      for (const Recipe& recipe : team_recipes()) {
        const size_t i = cases.size();
        const DType dtype = i % 2 == 0 ? DType::bf16 : DType::f16;
        FusedCase c = fused_case({plan::SourceKind::rms_norm, dtype}, recipe,
                                 i / 2 % 2 == 0 ? PoolKind::mixed : PoolKind::finite, dtype,
                                 {rows, columns}, i, 64 + rows * 48);
        c.producer.form = i % 3 == 0 ? NormForm::gemma : NormForm::standard;
        c.row_out = i % 5 == 0 ? RowOut::stored : RowOut::absent;
        // Rows of x and of the codes apart, by multiples of 16 bytes and of 8.
        if (i % 4 == 1) c.x.strides[0] = columns + 24;
        if (i % 4 == 2) c.codes = shape_view(DType::e4m3, {rows, columns}, {columns + 8, 1});
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<plan::GpuPlan> team_plans(Lane& lane, const FusedCase& c) {
  lane.reset();
  const FusedSlots slots = reserve(lane, c, FusedCall::fused);
  PlannedFused planned;
  const Status status = plan_on(lane.gpu_side({}, 0), c, slots, FusedCall::fused, &planned);
  if (!status.ok()) return {};
  std::vector<plan::GpuPlan> plans = plan::candidate_plans(planned.problem);
  std::erase_if(plans,
                [](const plan::GpuPlan& plan) { return plan.split != plan::GpuSplit::norm_team; });
  return plans;
}

std::string compare_teams(Lane& lane, const FusedCase& c) {
  const std::vector<plan::GpuPlan> plans = team_plans(lane, c);
  if (plans.empty()) return "  " + to_string(c, FusedCall::fused) + "\n    no plan with teams";
  for (const plan::GpuPlan& plan : plans) {
    for (int64_t blocks : {1, 2}) {
      lane.reset();
      const std::string text =
          compare_forced(lane, c, FusedCall::fused, on_few_blocks(plan, blocks));
      if (!text.empty()) return text;
    }
  }
  return {};
}

class FusedPlans : public GpuTest {};

// On a device without bulk copies there is no such plan to force.
bool has_teams() {
  cuda::DeviceFacts facts;
  return cuda::find_device(0, &facts).ok() && facts.code_version >= 90;
}

TEST_F(FusedPlans, TeamsGoRoundTheirRows) {
  if (!has_teams()) GTEST_SKIP() << "no bulk copies on this device";
  run_all(team_cases(), compare_teams);
}

// Two calls in a graph, the second one perhaps dependent on the first, of rows enough for the
// library to choose teams; they lie over each other.
TEST_F(FusedPlans, TeamsOfManyRowsInAGraph) {
  if (!has_teams()) GTEST_SKIP() << "no bulk copies on this device";
  constexpr int64_t kRows = 8193;
  constexpr int64_t kNeededBytes = int64_t{227} << 10;  // for every shape that is chosen
  Lane lane(int64_t{128} << 20);
  for (DependentLaunch dependent : {DependentLaunch::off, DependentLaunch::on}) {
    for (int64_t columns : {4096, 8192}) {
      for (const Recipe& recipe : {per_token(), per_group(128)}) {
        lane.reset();
        FusedCase c = fused_case({plan::SourceKind::rms_norm}, recipe, PoolKind::finite,
                                 DType::bf16, {1, columns}, 1);
        c.x = shape_view(DType::bf16, {kRows, columns}, {64, 1});
        c.x_begin = 0;
        c.dependent_launch = dependent;
        const FusedSlots slots = reserve(lane, c, FusedCall::fused);
        const Side gpu = lane.gpu_side({}, 0);
        PlannedFused planned;
        ASSERT_TRUE(plan_on(gpu, c, slots, FusedCall::fused, &planned).ok());
        if (planned.problem.shared_bytes >= kNeededBytes) {
          EXPECT_EQ(plan::plan_gpu(planned.problem).split, plan::GpuSplit::norm_team);
        }
        const Graph graph(lane.stream(), [&] {
          const Status first = call_on(gpu, c, slots, FusedCall::fused);
          return first.ok() ? call_on(gpu, c, slots, FusedCall::fused) : first;
        });
        ASSERT_TRUE(graph.status().ok()) << graph.status().message();
        lane.upload();
        graph.launch(lane.stream());
        lane.download();
        lane.synchronize();
        ASSERT_TRUE(call_on(lane.cpu_side({}), c, slots, FusedCall::fused).ok());
        const auto difference = lane.difference();
        EXPECT_FALSE(difference) << to_string(c, FusedCall::fused) << difference->text;
      }
    }
  }
}

TEST_F(FusedPlans, QuantizeByEveryCandidate) {
  run_all(planned_cases(), [](Lane& lane, const FusedCase& c) {
    return compare_every_plan(lane, c, FusedCall::fused);
  });
}

TEST_F(FusedPlans, ProduceByEveryCandidate) {
  run_all(planned_cases(), [](Lane& lane, const FusedCase& c) {
    return compare_every_plan(lane, c, FusedCall::separate);
  });
}

}  // namespace
}  // namespace rowscale::test
