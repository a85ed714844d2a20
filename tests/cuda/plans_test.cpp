// Every plan that serves a problem gives the same bits: the choice is about time alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/operators.hpp"
#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/plan_text.hpp"
#include "tests/cuda/support/shapes.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

std::vector<Recipe> planned_recipes() {
  return {per_tensor(),
          with(per_tensor(), ScaleSource::given),
          per_token(),
          with(per_channel(), Format::e5m2),
          per_group(8),
          with(per_group(16), ScaleEncoding::ue8m0_packed),
          per_group(24),
          per_group(32),
          per_group(64),
          with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma),
          with(per_group(128), ScaleEncoding::ue8m0_packed),
          per_group(256),
          per_group(1000),
          with(per_group(4096), Format::e5m2),
          per_group(7),
          per_block(128, 128),
          per_block(64, 32),
          per_block(3, 5),
          per_block(1, 128),
          per_column(),
          bounded(per_channel(), {BoundKind::amax, 1.5F}),
          bounded(per_group(128), {BoundKind::scale, 0x1p-8F}),
          by_reciprocal(per_channel()),
          by_reciprocal(bounded(per_token(), {BoundKind::amax, 1.5F})),
          by_reciprocal(with(per_group(128), ScaleEncoding::ue8m0))};
}

class Plans : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    for (const Matrix& shape : kFewShapes) shapes_.push_back({{shape.tokens, shape.hidden}});
    shapes_.push_back({{3, 40000}});
    shapes_.push_back({{2, 4104}});
    shapes_.push_back({{6, 136}, {272, 1}});
    shapes_.push_back({{9, 640}, {641, 1}});
    shapes_.push_back({{4, 9, 64}, {9 * 64, 64, 1}});
    shapes_.push_back({{5, 20, 256}, {20 * 256, 256, 1}});
  }
  struct Layout {
    Shape shape;
    Shape strides = {};  // none: contiguous
  };
  std::vector<Layout> shapes_;
};

TEST_F(Plans, QuantizeByEveryCandidate) {
  struct Case {
    QuantizeCase call;
    plan::GpuPlan plan;
  };
  std::vector<Case> cases;
  for (const Layout& layout : shapes_) {
    for (const Recipe& recipe : planned_recipes()) {
      for (DType dtype : kFloats) {
        for (PoolKind kind : kAllPoolKinds) {
          QuantizeCase c{recipe, &data_pool(kind, dtype),
                         layout.strides.empty() ? shape_view(dtype, layout.shape)
                                                : shape_view(dtype, layout.shape, layout.strides)};
          if (c.x.rank == 3 && kind == PoolKind::mixed) c.counts.assign(size_t(c.x.shape[0]), 7);
          c.seed = cases.size();
          c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes, 64);
          const plan::GpuProblem problem = problem_of(c);
          const std::vector<plan::GpuPlan> plans = plan::candidate_plans(problem);
          const plan::GpuPlan chosen = plan::plan_gpu(problem);
          ASSERT_NE(std::find(plans.begin(), plans.end(), chosen), plans.end())
              << to_string(c) << " is not among its candidates";
          for (const plan::GpuPlan& plan : plans) cases.push_back({c, plan});
        }
      }
    }
  }
  run_all(cases, [](Lane& lane, const Case& c) { return compare_forced(lane, c.call, c.plan); });
}

// Codes as the source: every plan of every split, in place.
TEST_F(Plans, RequantizeInPlaceByEveryCandidate) {
  struct Case {
    RequantizeCase call;
    plan::GpuPlan plan;
  };
  std::vector<Case> cases;
  for (const Layout& layout : shapes_) {
    if (!layout.strides.empty()) continue;
    for (const Recipe& in : {per_tensor(), per_group(24)}) {
      for (const Recipe& out : planned_recipes()) {
        if (out.scale_source == ScaleSource::given) continue;
        RequantizeCase c{in, out, shape_view(DType::e4m3, layout.shape)};
        c.place = Place::in_place;
        c.seed = cases.size();
        for (const plan::GpuPlan& plan : plan::candidate_plans(problem_of(c))) {
          cases.push_back({c, plan});
        }
      }
    }
  }
  run_all(cases, [](Lane& lane, const Case& c) { return compare_forced(lane, c.call, c.plan); });
}

}  // namespace
}  // namespace rowscale::test
