// Every plan that serves a norm or an activation gives the same bits: the sum of a norm too, by
// whatever number of threads and rows of a block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "plan/gpu_plan.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/fused_plans.hpp"
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

class FusedPlans : public GpuTest {};

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
