// Some two thousand calls that launch every kernel of the registry and reach every pad: for tools
// that slow a kernel down a hundred times, and for the second build with the codec in software.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/plan_text.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

// Vectors and single elements, short last groups, pads, units of a thread, a warp and a block, rows
// and tiles that no register holds.
const std::vector<TensorView>& views() {
  static const std::vector<TensorView> all = {
      shape_view(DType::f32, {3, 129}),
      shape_view(DType::f32, {5, 256}),
      shape_view(DType::f32, {2, 3, 1368}),
      shape_view(DType::f32, {1, 8192}),
      shape_view(DType::f32, {2, 20000}),
      shape_view(DType::f32, {260, 128}),
      shape_view(DType::f32, {130, 24}, {40, 1}),
      shape_view(DType::f32, {2, 5, 64}, {5 * 64, 64, 1}).as_rows({1}, {0, 2}),
  };
  return all;
}

std::vector<Recipe> reduced_recipes() {
  std::vector<Recipe> recipes = all_recipes(128, 128, 128);
  for (int64_t size : {7, 8, 16, 64, 512}) recipes.push_back(per_group(size));
  recipes.push_back(per_block(3, 5));
  recipes.push_back(per_block(300, 128));
  recipes.push_back(with(per_group(32), ScaleEncoding::ue8m0_packed));
  recipes.push_back(bounded(per_channel(), {BoundKind::amax, 1.5F}));
  recipes.push_back(bounded(per_group(128), {BoundKind::scale, 0x1p-8F}));
  recipes.push_back(by_reciprocal(per_channel()));
  recipes.push_back(by_reciprocal(bounded(per_token(), {BoundKind::amax, 1.5F})));
  for (const Recipe& recipe : {per_tensor(), per_token(), per_group(128), per_block(64, 32)}) {
    recipes.push_back(with(recipe, ScaleSource::given));
  }
  return recipes;
}

class Reduced : public GpuTest {};

TEST_F(Reduced, Quantize) {
  std::vector<QuantizeCase> cases;
  for (const TensorView& view : views()) {
    for (const Recipe& recipe : reduced_recipes()) {
      const DType dtype = kFloats[cases.size() % 3];
      QuantizeCase c{with(recipe, cases.size() % 2 == 0 ? Format::e4m3 : Format::e5m2),
                     &data_pool(PoolKind::mixed, dtype), view};
      c.x.dtype = dtype;
      if (cases.size() % 4 == 0 && view.rank == 2) c.counts = {2};
      c.shift.x = cases.size() % 5 == 0 ? element_size(dtype) : 0;
      c.seed = cases.size();
      c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes - 16, 64);
      cases.push_back(c);
    }
  }
  run_all(cases, compare_quantize);
}

std::vector<DequantizeCase> dequantize_cases() {
  std::vector<DequantizeCase> cases;
  for (const TensorView& view : views()) {
    for (const Recipe& recipe : reduced_recipes()) {
      DequantizeCase c{with(recipe, cases.size() % 2 == 0 ? Format::e4m3 : Format::e5m2), view};
      c.codes.dtype = DType::e4m3;
      Shape rows(view.shape, view.shape + view.rank - view.column_rank);
      rows.push_back(view.columns());
      c.y = shape_view(kFloats[cases.size() % 3], rows);
      c.seed = cases.size();
      cases.push_back(c);
    }
  }
  return cases;
}

TEST_F(Reduced, Dequantize) {
  run_all(dequantize_cases(), compare_dequantize);
}

TEST_F(Reduced, Requantize) {
  std::vector<RequantizeCase> cases;
  for (const TensorView& view : views()) {
    for (const Recipe& out : reduced_recipes()) {
      RequantizeCase c{per_group(24), out, view};
      c.place = cases.size() % 2 == 0 ? Place::in_place : Place::apart;
      c.seed = cases.size();
      cases.push_back(c);
    }
  }
  run_all(cases, compare_requantize);
}

TEST_F(Reduced, Relayout) {
  std::vector<RelayoutCase> cases;
  for (const auto& recipes : {group_recipes(16), block_recipes(3, 16)}) {
    for (const Recipe& in : recipes) {
      for (const Recipe& out : recipes) {
        if (in.encoding == ScaleEncoding::f32 && out.encoding != ScaleEncoding::f32) continue;
        RelayoutCase c{in, out, {2, 5, 90}};
        c.seed = cases.size();
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_relayout);
}

// Units of every register shape, in few elements.
std::vector<Recipe> unit_recipes() {
  std::vector<Recipe> recipes = {per_token(), per_block(3, 16), per_tensor(),
                                 with(per_token(), ScaleSource::given)};
  for (int64_t size : {7, 8, 16, 32, 64, 128, 256, 512}) recipes.push_back(per_group(size));
  const size_t count = recipes.size();
  for (size_t i = 0; i < count; ++i) {
    recipes.push_back(with(recipes[i], ScaleEncoding::ue8m0));
    recipes.push_back(by_reciprocal(recipes[i]));  // by the general rule
  }
  for (int64_t size : {8, 16, 32, 64, 128, 256, 512}) {  // scales below each other
    recipes.push_back(with(per_group(size), ScaleEncoding::f32, ScaleLayout::column_major_tma));
    recipes.push_back(with(per_group(size), ScaleEncoding::ue8m0_packed));
  }
  return recipes;
}

template <class Case>
struct Forced {
  Case call;
  plan::GpuPlan plan;
};

// What a kernel does in more than one way by what it is told: kinds of loads, rows side by side.
using Way = std::tuple<cuda::KernelKey, plan::GpuLoads, plan::GpuUnits>;

// The candidates of a case whose kernel no case before it launches in this way.
template <class Case>
void add_new_ways(const Case& c, std::set<Way>& launched, std::vector<Forced<Case>>& cases) {
  for (const plan::GpuPlan& plan : plan::candidate_plans(problem_of(c))) {
    if (plan.blocks > 0 && launched.emplace(key_of(c, plan), plan.loads, plan.units).second) {
      cases.push_back({c, plan});
    }
  }
}

struct EveryWay {
  std::set<Way> launched;
  std::vector<Forced<QuantizeCase>> quantize;
  std::vector<Forced<RequantizeCase>> requantize;
};

EveryWay every_way() {
  EveryWay all;
  // Vectors, elements, runs
  for (TensorView view :
       {shape_view(DType::f32, {3, 1368}), shape_view(DType::f32, {3, 129}),
        shape_view(DType::f32, {8, 3, 128}, {3 * 128, 128, 1}).as_rows({1}, {0, 2})}) {
    for (const Recipe& recipe : unit_recipes()) {
      for (Format format : {Format::e4m3, Format::e5m2}) {
        for (DType dtype : kFloats) {
          view.dtype = dtype;
          QuantizeCase c{with(recipe, format), &data_pool(PoolKind::mixed, dtype), view};
          c.seed = all.quantize.size();
          c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes, 64);
          add_new_ways(c, all.launched, all.quantize);
        }
        for (Format format_in : {Format::e4m3, Format::e5m2}) {
          view.dtype = DType::e4m3;
          RequantizeCase c{with(per_group(24), format_in), with(recipe, format), view};
          c.seed = all.requantize.size();
          add_new_ways(c, all.launched, all.requantize);
        }
      }
    }
  }
  return all;
}

std::string compare_quantize_forced(Lane& lane, const Forced<QuantizeCase>& c) {
  return compare_forced(lane, c.call, c.plan);
}

// What a checker of shared memory can look at within a minute: of one dtype, each kernel that uses
// it.
TEST_F(Reduced, KernelsWithSharedMemory) {
  std::vector<Forced<QuantizeCase>> cases = every_way().quantize;
  std::erase_if(cases, [](const Forced<QuantizeCase>& c) {
    const bool is_alone = c.plan.split == plan::GpuSplit::groups;
    return is_alone || c.call.x.dtype != DType::bf16 || c.call.recipe.format != Format::e4m3;
  });
  EXPECT_GE(cases.size(), 20U);
  run_all(cases, compare_quantize_forced);
}

// One call a kernel and way. The kernels that were launched are those of the registry: a
// new one without a case here fails, and so does one that no plan leads to.
TEST_F(Reduced, EveryKernelOfTheRegistry) {
  const EveryWay all = every_way();
  run_all(all.quantize, compare_quantize_forced);
  run_all(all.requantize, [](Lane& lane, const Forced<RequantizeCase>& c) {
    return compare_forced(lane, c.call, c.plan);
  });

  std::set<cuda::KernelKey> keys;
  for (const Way& way : all.launched) keys.insert(std::get<cuda::KernelKey>(way));
  for (const DequantizeCase& c : dequantize_cases()) keys.insert(key_of(c));  // Reduced.Dequantize
  const std::string difference = difference_from_registry(keys, RowsOf::callers);
  EXPECT_TRUE(difference.empty()) << difference;
}

}  // namespace
}  // namespace rowscale::test
