// Rows that exist only up to a count that lies on the device: nothing else is read or written.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

// Far below zero, below it, none, one, some, all but one, all, beyond, far beyond.
const std::vector<int32_t> kCounts = {INT32_MIN, -7, 0, 1, 2, 4, 5, 99, INT32_MAX};
constexpr int64_t kBatches = 9;
constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

struct Masked {
  Shape shape;
  std::vector<int32_t> counts;
};

std::vector<Masked> masked_shapes() {
  return {
      {{kBatches, 5, 150}, kCounts},
      {{kBatches, 5, 384}, kCounts},
      {{3, 3, 5, 256}, kCounts},
      // Whole chunks, and a second row of blocks: what is left of a count lies below INT32_MIN.
      {{1, 256, 256}, {INT32_MIN}},
      {{3, 256, 128}, {INT32_MIN + 1, 130, -128}},
      {{3, 130, 72}, {129, 0, 64}},
      {{2, 260, 128}, {1, 200}},
      {{7, 256}, {3}},
      {{7, 256}, {0}},
      {{2, 0, 64}, {5, 0}},
      {{300}, {1}},
  };
}

std::vector<Recipe> mask_recipes() {
  std::vector<Recipe> recipes = all_recipes(128, 128, 128);
  for (const Recipe& recipe : all_recipes(16, 3, 100)) recipes.push_back(recipe);
  recipes.push_back(per_group(7));
  recipes.push_back(with(per_tensor(), ScaleSource::given));
  recipes.push_back(with(per_token(), ScaleSource::given));
  recipes.push_back(with(per_group(16), ScaleSource::given));
  recipes.push_back(with(with(per_group(16), ScaleEncoding::ue8m0_packed), ScaleSource::given));
  recipes.push_back(with(per_block(3, 100), ScaleSource::given));
  return recipes;
}

class GpuMasks : public GpuTest {};

TEST_F(GpuMasks, Quantize) {
  std::vector<QuantizeCase> cases;
  for (const Masked& masked : masked_shapes()) {
    for (const Recipe& recipe : mask_recipes()) {
      for (DType dtype : kFloats) {
        for (PoolKind kind : kAllPoolKinds) {
          QuantizeCase c{recipe, &data_pool(kind, dtype), shape_view(dtype, masked.shape)};
          c.counts = masked.counts;
          c.seed = cases.size();
          c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes, 64);
          cases.push_back(c);
        }
      }
    }
  }
  run_all(cases, compare_quantize);
}

TEST_F(GpuMasks, Dequantize) {
  std::vector<DequantizeCase> cases;
  for (const Masked& masked : masked_shapes()) {
    for (const Recipe& recipe : mask_recipes()) {
      for (DType dtype : kFloats) {
        DequantizeCase c{recipe, shape_view(DType::e4m3, masked.shape)};
        c.y = shape_view(dtype, masked.shape);
        c.counts = masked.counts;
        c.seed = cases.size();
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_dequantize);
}

TEST_F(GpuMasks, Requantize) {
  std::vector<RequantizeCase> cases;
  for (const Masked& masked : masked_shapes()) {
    for (const Recipe& in : {per_group(64), per_block(3, 100), per_tensor()}) {
      for (const Recipe& out : mask_recipes()) {
        for (Place place : {Place::apart, Place::in_place}) {
          RequantizeCase c{in, out, shape_view(DType::e4m3, masked.shape)};
          c.place = place;
          c.counts = masked.counts;
          c.seed = cases.size();
          cases.push_back(c);
        }
      }
    }
  }
  run_all(cases, compare_requantize);
}

TEST_F(GpuMasks, Relayout) {
  std::vector<RelayoutCase> cases;
  for (const Masked& masked : masked_shapes()) {
    for (const auto& recipes : {group_recipes(16), block_recipes(3, 100)}) {
      for (const Recipe& in : recipes) {
        for (const Recipe& out : recipes) {
          if (in.encoding == ScaleEncoding::f32 && out.encoding != ScaleEncoding::f32) continue;
          RelayoutCase c{in, out, masked.shape};
          c.counts = masked.counts;
          c.seed = cases.size();
          cases.push_back(c);
        }
      }
    }
  }
  run_all(cases, compare_relayout);
}

}  // namespace
}  // namespace rowscale::test
