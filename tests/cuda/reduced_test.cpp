// A few hundred calls that reach every kernel and every pad: for tools that slow a kernel down a
// hundred times, and for the second build with the codec in software.
#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

// Vectors and single elements, short last groups, pads, units of a thread, a warp and a block.
const std::vector<TensorView>& views() {
  static const std::vector<TensorView> all = {
      shape_view(DType::f32, {3, 129}),
      shape_view(DType::f32, {5, 256}),
      shape_view(DType::f32, {2, 3, 1368}),
      shape_view(DType::f32, {1, 8192}),
      shape_view(DType::f32, {130, 24}, {40, 1}),
      shape_view(DType::f32, {2, 5, 64}, {5 * 64, 64, 1}).as_rows({1}, {0, 2}),
  };
  return all;
}

std::vector<Recipe> reduced_recipes() {
  std::vector<Recipe> recipes = all_recipes(128, 128, 128);
  recipes.push_back(per_group(7));
  recipes.push_back(per_block(3, 5));
  recipes.push_back(with(per_group(32), ScaleEncoding::ue8m0_packed));
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

TEST_F(Reduced, Dequantize) {
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
  run_all(cases, compare_dequantize);
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

}  // namespace
}  // namespace rowscale::test
