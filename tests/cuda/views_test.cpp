// Rows with any stride, columns that span dimensions, pointers at any address.
#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

struct NamedView {
  Shape shape;
  Shape strides;
  int heads = 0;  // 1: [heads, tokens, dim] as rows of heads * dim columns
};

TensorView view_of_case(const NamedView& view, DType dtype) {
  const TensorView strided = shape_view(dtype, view.shape, view.strides);
  return view.heads == 1 ? strided.as_rows({1}, {0, 2}) : strided;
}

// Inputs may overlap themselves and repeat rows.
std::vector<NamedView> input_views() {
  return {
      {{4, 130}, {400, 1}},                       // rows of a wider buffer
      {{5, 256}, {264, 1}},                       // aligned, with a gap
      {{5, 256}, {257, 1}},                       // every row at another alignment
      {{6, 136}, {-136, 1}},                      // in reverse
      {{5, 104}, {0, 1}},                         // one row repeated
      {{10, 60}, {3, 1}},                         // a sliding window
      {{9, 1}, {5, 77}},                          // one column
      {{2, 5, 256}, {8 * 256, 256, 1}},           // a slice of a batch
      {{2, 3, 48}, {48, 0, 1}},                   // expanded
      {{2, 3, 72}, {72, -144, 1}},                // reversed inside a batch
      {{3, 5, 35}, {7 * 40, 40, 1}, 1},           // heads that no vector fits
      {{4, 33, 64}, {33 * 64, 64, 1}, 1},         // heads that vectors fit
      {{8, 17, 128}, {17 * 128 + 8, 128, 1}, 1},  // heads apart
      {{5, 2, 2500}, {3 * 2500, 2500, 1}, 1},     // long heads
      {{64, 3, 1}, {3, 1, 1}, 1},                 // each column somewhere else
      {{2, 300, 12}, {4000, 13, 1}, 1},
      {{3, 2, 0, 8}, {1, 1, 1, 1}},
  };
}

// Outputs do neither.
std::vector<NamedView> output_views() {
  return {
      {{5, 105}, {140, 1}},
      {{5, 105}, {-105, 1}},
      {{3, 5, 35}, {200, 37, 1}, 1},
      {{5, 128}, {144, 1}},
      {{5, 128}, {129, 1}},
      {{4, 5, 64}, {5 * 64, 64, 1}, 1},
      {{4, 5, 64}, {6 * 72, 72, 1}, 1},
      {{2, 5, 2504}, {5 * 2504, 2504, 1}, 1},
  };
}

std::vector<Recipe> view_recipes() {
  std::vector<Recipe> recipes = all_recipes(48, 2, 50);
  const std::vector<Recipe> usual = all_recipes(128, 128, 128);
  recipes.insert(recipes.end(), usual.begin(), usual.end());
  recipes.push_back(with(per_group(1), ScaleEncoding::ue8m0_packed));
  recipes.push_back(per_group(7));
  recipes.push_back(per_group(64));
  recipes.push_back(with(per_token(), ScaleSource::given));
  recipes.push_back(with(per_tensor(), ScaleSource::given));
  recipes.push_back(with(per_group(20), ScaleSource::given));
  recipes.push_back(with(per_block(3, 40), ScaleSource::given));
  return recipes;
}

class GpuViews : public GpuTest {};

TEST_F(GpuViews, OfTheInput) {
  std::vector<QuantizeCase> cases;
  for (const NamedView& view : input_views()) {
    for (const Recipe& recipe : view_recipes()) {
      for (DType dtype : kFloats) {
        QuantizeCase c{recipe, &data_pool(PoolKind::mixed, dtype), view_of_case(view, dtype)};
        c.seed = cases.size();
        c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes, 64);
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_quantize);
}

TEST_F(GpuViews, OfTheCodes) {
  std::vector<QuantizeCase> cases;
  for (const NamedView& view : output_views()) {
    for (const Recipe& recipe : view_recipes()) {
      for (DType dtype : kFloats) {
        const TensorView codes = view_of_case(view, DType::e4m3);
        QuantizeCase c{recipe, &data_pool(PoolKind::finite, dtype),
                       shape_view(dtype, {codes.rows(), codes.columns()})};
        c.codes = codes;
        c.seed = cases.size();
        c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes, 64);
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_quantize);
}

TEST_F(GpuViews, Dequantize) {
  std::vector<DequantizeCase> cases;
  for (const Recipe& recipe : view_recipes()) {
    for (DType dtype : kFloats) {
      for (const NamedView& view : input_views()) {
        DequantizeCase c{recipe, view_of_case(view, DType::e4m3)};
        Shape rows(c.codes.shape, c.codes.shape + c.codes.rank - c.codes.column_rank);
        rows.push_back(c.codes.columns());
        c.y = shape_view(dtype, rows);
        c.seed = cases.size();
        c.codes_begin = window(c.seed, code_pool().size - extent_of(c.codes).bytes, 16);
        cases.push_back(c);
      }
      for (const NamedView& view : output_views()) {
        const TensorView y = view_of_case(view, dtype);
        DequantizeCase c{recipe, shape_view(DType::e4m3, {y.rows(), y.columns()})};
        c.y = y;
        c.seed = cases.size();
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_dequantize);
}

// Every offset of x, of the codes and of the scales within a vector, one and all together.
TEST_F(GpuViews, EveryAddress) {
  std::vector<QuantizeCase> quantize_cases;
  std::vector<DequantizeCase> dequantize_cases;
  std::vector<Shifts> shifts;
  for (int64_t shift = 1; shift <= 17; ++shift) {
    shifts.push_back({shift, 0, 0});
    shifts.push_back({0, shift, 0});
    shifts.push_back({0, 0, shift});
    shifts.push_back({shift, 19 - shift, shift / 2});
  }
  const std::vector<Recipe> recipes = view_recipes();
  for (const Shifts& shift : shifts) {
    for (const Recipe& recipe : recipes) {
      for (DType dtype : kFloats) {
        for (const Shape& shape : {Shape{5, 256}, Shape{3, 150}}) {
          QuantizeCase c{recipe, &data_pool(PoolKind::mixed, dtype), shape_view(dtype, shape)};
          c.shift = shift;
          c.seed = quantize_cases.size();
          c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes - 32, 64);
          quantize_cases.push_back(c);
          DequantizeCase d{recipe, shape_view(DType::e4m3, shape)};
          d.y = shape_view(dtype, shape);
          d.shift = shift;
          d.codes_begin = shift.codes;
          d.seed = c.seed;
          dequantize_cases.push_back(d);
        }
      }
    }
  }
  run_all(quantize_cases, compare_quantize);
  run_all(dequantize_cases, compare_dequantize);
}

}  // namespace
}  // namespace rowscale::test
