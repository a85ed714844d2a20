// Norms and activations: some hundred calls that reach every kind of row, pad and mask, and one
// call of every kernel: for tools that slow a kernel down a hundred times, and for the second build
// with the codec in software.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/registry.hpp"
#include "plan/fused_call.hpp"
#include "plan/gpu_plan.hpp"
#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/fused_plans.hpp"
#include "tests/cuda/support/graph.hpp"
#include "tests/cuda/support/mla_calls.hpp"
#include "tests/cuda/support/plan_text.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

// Of the result: single elements and vectors, short last groups, rows of a warp, of a block and of
// more than its registers hold.
const std::vector<Shape> kShapes = {{3, 7},    {5, 129},  {2, 3, 256},
                                    {4, 1368}, {2, 4096}, {1, 12296}};

std::vector<Recipe> recipes() {
  return {per_token(),
          with(per_token(), ScaleEncoding::ue8m0),
          per_group(128),
          with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma),
          with(per_group(128), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma),
          with(per_group(128), ScaleEncoding::ue8m0_packed),
          per_group(16),
          per_group(7),
          with(per_tensor(), ScaleSource::given),
          with(per_token(), ScaleSource::given),
          by_reciprocal(bounded(per_token(), {BoundKind::amax, 1.5F}))};
}

std::vector<FusedCase> reduced_cases() {
  std::vector<FusedCase> cases;
  for (const Shape& shape : kShapes) {
    for (const Producer& producer : kProducers) {
      for (const Recipe& recipe : recipes()) {
        const size_t i = cases.size();
        FusedCase c = fused_case(producer, with(recipe, i % 2 == 0 ? Format::e4m3 : Format::e5m2),
                                 PoolKind::finite, kFloats[i % 3], shape, i);
        c.producer.weight = kFloats[i / 3 % 3];
        c.producer.form = i % 4 < 2 ? NormForm::standard : NormForm::gemma;
        c.row_out = i % 5 < 2 ? RowOut::stored : RowOut::absent;
        c.shift.x = i % 7 == 0 ? element_size(c.x.dtype) : 0;
        if (i % 4 == 1) c.counts.assign(c.x.rank == 3 ? static_cast<size_t>(c.x.shape[0]) : 1, 1);
        cases.push_back(c);
      }
    }
  }
  return cases;
}

class FusedReduced : public GpuTest {};

TEST_F(FusedReduced, ProduceAndQuantize) {
  run_all(reduced_cases(), compare_fused);
}

TEST_F(FusedReduced, Produce) {
  run_all(reduced_cases(), compare_separate);
}

TEST_F(FusedReduced, AttentionOutput) {
  std::vector<QuantizeCase> cases;
  for (const Recipe& recipe : recipes()) {
    for (DType dtype : kFloats) {
      QuantizeCase c{recipe, &data_pool(PoolKind::finite, dtype),
                     shape_view(dtype, {4, 9, 64}, {9 * 64, 64, 1}).as_rows({1}, {0, 2})};
      c.seed = cases.size();
      cases.push_back(c);
    }
  }
  run_all(cases, compare_quantize);
}

// Latent attention: rows in registers by each unit and kind of scales, and others.
std::vector<MlaCase> mla_cases() {
  std::vector<MlaCase> cases;
  for (const MlaWidths& widths : {MlaWidths{256, 128, 64}, MlaWidths{7, 5, 3}}) {
    for (const Recipe& recipe : recipes()) {
      for (DType dtype : kFloats) {
        const size_t i = cases.size();
        MlaCase c = mla_case(widths, recipe, per_token(), data_pool(PoolKind::finite, dtype), dtype,
                             {5}, i);
        c.kv_out = i % 2 == 0 ? KvOut::rows : KvOut::both;
        c.q_row = i % 4 < 2 ? RowOut::absent : RowOut::stored;
        cases.push_back(c);
        c.kv_out = KvOut::rows;
        c.places = MlaPlaces::side_by_side_aligned;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

TEST_F(FusedReduced, LatentAttention) {
  run_all(mla_cases(), compare_mla);
}

// What a call launches is recorded, not run. Each kernel of the registry is another function.
TEST_F(FusedReduced, EveryKernelOfLatentAttention) {
  Lane lane(kLaneBytes);
  std::set<const void*> launched;
  for (const MlaCase& c : mla_cases()) {  // FusedReduced.LatentAttention
    lane.reset();
    const MlaSlots slots = reserve(lane, c);
    const Side gpu = lane.gpu_side({}, 0);
    const Capture capture(lane.stream(), [&] { return call_on(gpu, c, slots); });
    ASSERT_TRUE(capture.status().ok()) << capture.status().message();
    const std::set<const void*> kernels = capture.kernels();
    EXPECT_EQ(kernels.size(), 1U) << to_string(c);
    launched.insert(kernels.begin(), kernels.end());
  }
  EXPECT_EQ(launched.size(), cuda::mla_kernels().size());
}

struct Forced {
  FusedCase call;
  FusedCall form;
  plan::GpuPlan plan;
};
// What a kernel does in more than one way by what it is told: kinds of loads, rows side by side.
using Way = std::tuple<cuda::KernelKey, plan::GpuLoads, plan::GpuUnits>;

struct EveryWay {
  std::set<Way> launched;
  std::vector<Forced> cases;

  // The candidates of a case whose kernel no case before it launches in this way.
  void add(Lane& lane, const FusedCase& c, FusedCall form) {
    lane.reset();
    const FusedSlots slots = reserve(lane, c, form);
    PlannedFused planned;
    const Status status = plan_on(lane.gpu_side({}, 0), c, slots, form, &planned);
    ASSERT_TRUE(status.ok()) << status.message();
    for (const plan::GpuPlan& plan : plan::candidate_plans(planned.problem)) {
      if (launched.emplace(key_of(planned, form, plan), plan.loads, plan.units).second) {
        cases.push_back({c, form, on_few_blocks(plan, 1)});
      }
    }
  }
};

// Units of every register shape, and both accesses, in few elements.
void add_every_way(EveryWay& all) {
  Lane lane(kLaneBytes);
  std::vector<Recipe> every_recipe = recipes();
  for (const Recipe& recipe : {per_token(), per_group(128), per_group(512)}) {
    every_recipe.push_back(recipe);
    every_recipe.push_back(by_reciprocal(recipe));
    every_recipe.push_back(with(recipe, ScaleEncoding::ue8m0));
  }
  for (Recipe recipe : {per_token(), per_group(128), with(per_tensor(), ScaleSource::given)}) {
    recipe.profile = Profile::vllm;
    every_recipe.push_back(recipe);
  }
  for (const Shape& shape : {Shape{3, 1024}, Shape{3, 129}}) {  // vectors, elements
    for (const Producer& producer : kProducers) {
      for (DType dtype : kFloats) {
        for (const Recipe& recipe : every_recipe) {
          const bool is_vllm = recipe.profile == Profile::vllm;
          if (is_vllm && !plan::has_vllm_operator(producer.kind, recipe)) continue;
          for (Format format : {Format::e4m3, Format::e5m2}) {
            FusedCase c = fused_case(producer, with(recipe, format), PoolKind::finite, dtype, shape,
                                     all.cases.size());
            c.producer.weight = dtype;
            all.add(lane, c, FusedCall::fused);
            all.add(lane, c, FusedCall::separate);
          }
        }
      }
    }
  }
  // Norms by teams: a kernel for each number of rounds of the sum's tree, and rows enough for a
  // team to go round its ring.
  for (int64_t columns : {4096, 6144, 8192}) {
    for (const Recipe& recipe : {per_token(), per_group(128)}) {
      for (ScaleEncoding encoding : {ScaleEncoding::f32, ScaleEncoding::ue8m0}) {
        for (DType dtype : {DType::bf16, DType::f16}) {
          FusedCase c = fused_case({plan::SourceKind::rms_norm, dtype}, with(recipe, encoding),
                                   PoolKind::finite, dtype, {11, columns}, all.cases.size());
          all.add(lane, c, FusedCall::fused);
        }
      }
    }
  }
}

std::string compare_way(Lane& lane, const Forced& c) {
  return compare_forced(lane, c.call, c.form, c.plan);
}

// What a checker of shared memory can look at within a minute: of one dtype, each kernel that uses
// it; those of teams of one length.
TEST_F(FusedReduced, KernelsWithSharedMemory) {
  EveryWay all;
  add_every_way(all);
  std::erase_if(all.cases, [](const Forced& c) {
    const bool is_alone =
        c.plan.split == plan::GpuSplit::groups || c.plan.split == plan::GpuSplit::given;
    const bool is_of_other_teams =
        c.plan.split == plan::GpuSplit::norm_team && c.call.hidden() != 4096;
    return is_alone || is_of_other_teams || c.call.x.dtype != DType::bf16 ||
           c.call.recipe.format != Format::e4m3;
  });
  EXPECT_GE(all.cases.size(), 20U);
  run_all(all.cases, compare_way);
}

// One call a kernel and way. The kernels that were launched are those of the registry: a new one
// without a case here fails, and so does one that no plan leads to.
TEST_F(FusedReduced, EveryKernelOfTheRegistry) {
  EveryWay all;
  add_every_way(all);
  run_all(all.cases, compare_way);
  std::set<cuda::KernelKey> keys;
  for (const Way& way : all.launched) keys.insert(std::get<cuda::KernelKey>(way));
  // FusedReduced.EveryKernelOfLatentAttention
  const std::string difference =
      difference_from_registry(keys, RowsOf::producers, {cuda::Operation::mla});
  EXPECT_TRUE(difference.empty()) << difference;
}

}  // namespace
}  // namespace rowscale::test
