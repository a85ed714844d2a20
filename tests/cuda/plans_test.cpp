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
          per_column()};
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
  run_all(cases, [](Lane& lane, const Case& c) {
    const QuantizeSlots slots = reserve(lane, c.call);
    const auto difference =
        lane.compare({}, workspace_bytes(c.call), [&](const Side& side) -> Status {
          if (!side.is_gpu()) return quantize_on(side, c.call, slots);
          plan::Source source;
          source.x = x_on(side, c.call, slots);
          return cuda::quantize(source, resolve(c.call.recipe), side.view(slots.codes),
                                side.view(slots.scales), side.exec, c.plan);
        });
    return difference ? fmt::format("{}\n    forced: {}", to_string(*difference, c.call),
                                    to_string(c.plan))
                      : std::string();
  });
}

// Codes as the source: every plan of every split, in place.
TEST_F(Plans, RequantizeInPlaceByEveryCandidate) {
  struct Case {
    Recipe in, out;
    Shape shape;
    plan::GpuPlan plan;
  };
  const auto scales_of = [](const Shape& shape, const Recipe& recipe) {
    return spec_of(shape_view(DType::e4m3, shape), recipe);
  };
  std::vector<Case> cases;
  for (const Layout& layout : shapes_) {
    if (!layout.strides.empty()) continue;
    for (const Recipe& in : {per_tensor(), per_group(24)}) {
      for (const Recipe& out : planned_recipes()) {
        if (out.scale_source == ScaleSource::given) continue;
        const plan::GpuProblem problem =
            problem_of_requantize(in, out, layout.shape[0], layout.shape[1]);
        for (const plan::GpuPlan& plan : plan::candidate_plans(problem)) {
          cases.push_back({in, out, layout.shape, plan});
        }
      }
    }
  }
  run_all(cases, [&](Lane& lane, const Case& c) {
    const std::vector<std::byte>& pool = scale_pool(c.in.encoding);
    const ScaleSpec in_spec = scales_of(c.shape, c.in);
    const ScaleSpec out_spec = scales_of(c.shape, c.out);
    const Slot codes = lane.fill("codes", shape_view(code_dtype(c.in), c.shape), code_pool().host,
                                 c.shape[0] * c.shape[1]);
    const Slot scales_in = lane.fill("scales_in", in_spec.view(static_cast<void*>(nullptr)),
                                     pool.data(), scale_bytes(in_spec));
    const Slot scales_out = lane.reserve("scales_out", out_spec.view(static_cast<void*>(nullptr)),
                                         scale_bytes(out_spec));
    TensorView on_gpu = codes.view;
    on_gpu.device = kGpu;
    const auto difference = lane.compare(
        {}, requantize_workspace_bytes(on_gpu, c.out), [&](const Side& side) -> Status {
          TensorView to = side.view(codes);
          to.dtype = code_dtype(c.out);
          if (!side.is_gpu()) {
            return requantize(side.view(codes), side.view(scales_in), c.in, to,
                              side.view(scales_out), c.out, side.exec);
          }
          plan::Source source;
          source.kind = plan::SourceKind::dequantized;
          source.x = side.view(codes);
          source.scales = side.view(scales_in);
          source.recipe = resolve(c.in);
          return cuda::quantize(source, resolve(c.out), to, side.view(scales_out), side.exec,
                                c.plan);
        });
    return difference ? fmt::format("  requantize {}\n    to {}\n    [{}], forced: {}\n    {}",
                                    to_string(c.in), to_string(c.out), fmt::join(c.shape, ", "),
                                    to_string(c.plan), difference->text)
                      : std::string();
  });
}

}  // namespace
}  // namespace rowscale::test
