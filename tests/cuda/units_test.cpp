// Groups and blocks of every size: one element, odd, none that divides the data, larger than it.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/shapes.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

class Units : public GpuTest {};

// Both kinds of data and all dtypes, the format by turns: it shares nothing with the size.
void add_cases(std::vector<QuantizeCase>& cases, const Recipe& recipe, const Matrix& shape) {
  for (DType dtype : kFloats) {
    for (PoolKind kind : kAllPoolKinds) {
      QuantizeCase c{with(recipe, cases.size() % 2 == 0 ? Format::e4m3 : Format::e5m2),
                     &data_pool(kind, dtype), shape_view(dtype, {shape.tokens, shape.hidden})};
      c.seed = cases.size();
      c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes, 64);
      cases.push_back(c);
    }
  }
}

TEST_F(Units, GroupsOfEverySize) {
  std::vector<QuantizeCase> cases;
  for (const Matrix& shape : kFewShapes) {
    for (int64_t size :
         {int64_t{1}, int64_t{3}, int64_t{8}, int64_t{16}, int64_t{24}, int64_t{32}, int64_t{64},
          int64_t{100}, int64_t{128}, int64_t{256}, int64_t{512}, int64_t{1000}, int64_t{4096},
          shape.hidden, shape.hidden + 1, int64_t{INT64_MAX}}) {
      for (const Recipe& recipe : group_recipes(size)) {
        add_cases(cases, recipe, shape);
        add_cases(cases, with(recipe, ScaleSource::given), shape);
      }
    }
  }
  run_all(cases, compare_quantize);
}

// Every length of a unit around the borders of a vector, a warp's lanes and a block's threads.
TEST_F(Units, RowsOfEveryLength) {
  std::vector<QuantizeCase> cases;
  std::vector<int64_t> lengths;
  for (int64_t length = 1; length <= 300; ++length) lengths.push_back(length);
  for (int64_t power = 512; power <= 131072; power *= 2) {
    for (int64_t step : {-8, -1, 0, 1, 8}) lengths.push_back(power + step);
    lengths.push_back(power / 2 * 3);
  }
  for (int64_t hidden : lengths) {
    const Matrix shape{hidden > 8192 ? 2 : 5, hidden};
    add_cases(cases, per_token(), shape);
    add_cases(cases, with(per_group(hidden), ScaleEncoding::ue8m0_packed), shape);
    add_cases(cases, per_tensor(), shape);
    add_cases(cases, with(per_channel(), ScaleSource::given), shape);
  }
  run_all(cases, compare_quantize);
}

TEST_F(Units, BlocksOfEverySize) {
  struct Block {
    int64_t rows, columns;
  };
  constexpr Block kBlocks[] = {{128, 128}, {64, 32}, {1, 128}, {3, 5},    {128, 1},
                               {2, 1000},  {1, 1},   {32, 8},  {300, 16}, {INT64_MAX, INT64_MAX}};
  constexpr Matrix kMatrices[] = {{1, 1},     {5, 3},     {128, 128}, {129, 130}, {127, 256},
                                  {300, 520}, {64, 2048}, {257, 72},  {2, 8200},  {1000, 17}};
  std::vector<QuantizeCase> cases;
  for (const Matrix& shape : kMatrices) {
    for (const Block& block : kBlocks) {
      for (const Recipe& recipe : block_recipes(block.rows, block.columns)) {
        add_cases(cases, recipe, shape);
        add_cases(cases, with(recipe, ScaleSource::given), shape);
      }
    }
  }
  run_all(cases, compare_quantize);
}

// Leading dimensions: a matrix of scales and its pads for each batch, blocks that stop at its end.
TEST_F(Units, Batches) {
  std::vector<QuantizeCase> cases;
  for (const Shape& shape : {Shape{3, 5, 300}, Shape{2, 3, 4, 256}, Shape{7, 1, 136}, Shape{300},
                             Shape{4, 130, 384}, Shape{2, 0, 64}, Shape{0, 3, 64}}) {
    std::vector<Recipe> recipes = all_recipes(128, 128, 128);
    const std::vector<Recipe> small = all_recipes(16, 2, 48);
    recipes.insert(recipes.end(), small.begin(), small.end());
    for (const Recipe& recipe : recipes) {
      for (DType dtype : kFloats) {
        QuantizeCase c{recipe, &data_pool(PoolKind::mixed, dtype), shape_view(dtype, shape)};
        c.seed = cases.size();
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_quantize);
}

TEST_F(Units, DequantizeGroupsAndBlocks) {
  std::vector<DequantizeCase> cases;
  for (const Matrix& shape : kFewShapes) {
    std::vector<Recipe> recipes;
    for (int64_t size : {int64_t{1}, int64_t{3}, int64_t{16}, int64_t{24}, int64_t{100},
                         int64_t{512}, int64_t{1000}, shape.hidden}) {
      const std::vector<Recipe> groups = group_recipes(size);
      recipes.insert(recipes.end(), groups.begin(), groups.end());
    }
    for (const Recipe& recipe : {per_block(64, 32), per_block(1, 128), per_block(3, 5)}) {
      recipes.push_back(recipe);
      recipes.push_back(with(recipe, ScaleEncoding::ue8m0, ScaleLayout::block_k4));
    }
    for (const Recipe& recipe : recipes) {
      for (DType dtype : kFloats) {
        DequantizeCase c{with(recipe, cases.size() % 2 == 0 ? Format::e4m3 : Format::e5m2),
                         shape_view(DType::e4m3, {shape.tokens, shape.hidden})};
        c.y = shape_view(dtype, {shape.tokens, shape.hidden});
        c.seed = cases.size();
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_dequantize);
}

}  // namespace
}  // namespace rowscale::test
