// Norms and activations on rows with any stride and tensors at any address, and the output of
// attention: [heads, tokens, dim] quantized as rows of heads * dim columns.
#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/fused_recipes.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

// Elements that lie between rows, and between batches, for each dimension but the last one.
struct Stride {
  Shape shape;         // of the result
  Shape steps;         // of x
  Shape output_steps;  // of codes, row and residual
};

std::vector<Stride> strides_of_rows() {
  return {
      {{5, 256}, {8}, {16}},   // aligned, with a gap
      {{5, 256}, {1}, {3}},    // every row at another alignment
      {{4, 130}, {270}, {7}},  // rows of a wider buffer
      {{6, 1368}, {0}, {8}},   // contiguous in, apart out
      {{6, 1368}, {40}, {0}},  // apart in, contiguous out
      {{3, 5, 128}, {512, 8}, {1024, 24}},
      {{2, 3, 7168}, {8, 16}, {8, 0}},
      {{3, 2, 8200}, {8, 8}, {24, 8}},
  };
}

// A view with that much more than a row between its rows, and so on outwards.
TensorView with_steps(TensorView view, const Shape& steps) {
  int64_t reach = view.shape[view.rank - 1];
  for (int i = view.rank - 2; i >= 0; --i) {
    view.strides[i] = reach + steps[static_cast<size_t>(i)];
    reach = view.strides[i] * view.shape[i];
  }
  return view;
}

void place(FusedCase& c) {
  c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes - 64, 64);
}

class FusedViews : public GpuTest {};

TEST_F(FusedViews, RowsWithStrides) {
  std::vector<FusedCase> cases;
  for (const Stride& stride : strides_of_rows()) {
    for (const Producer& producer : kProducers) {
      for (const Recipe& recipe : fused_recipes({128, 7})) {
        for (DType dtype : kFloats) {
          FusedCase c =
              fused_case(producer, recipe, PoolKind::finite, dtype, stride.shape, cases.size());
          c.producer.weight = kFloats[cases.size() % 3];
          c.x = with_steps(c.x, stride.steps);
          // By turns: of one output only, of all.
          const TensorView output =
              with_steps(shape_view(dtype, stride.shape), stride.output_steps);
          if (cases.size() % 4 != 1) c.codes = output;
          if (cases.size() % 4 != 2) c.row = output;
          if (cases.size() % 4 != 3) c.residual = output;
          c.row_out = cases.size() % 5 == 0 ? RowOut::absent : RowOut::stored;
          place(c);
          cases.push_back(c);
        }
      }
    }
  }
  run_all(cases, compare_fused);
  run_all(cases, compare_separate);
}

// Rows that repeat, lie over each other or stand in reverse.
TEST_F(FusedViews, InputsOverThemselves) {
  std::vector<FusedCase> cases;
  for (int64_t hidden : {40, 256, 1000}) {
    for (const Producer& producer : kProducers) {
      const int64_t columns = hidden * producer.inputs();
      for (int64_t stride : {int64_t{0}, int64_t{3}, int64_t{8}, -columns, -columns - 8}) {
        for (const Recipe& recipe : fused_recipes({128})) {
          for (DType dtype : kFloats) {
            FusedCase c =
                fused_case(producer, recipe, PoolKind::mixed, dtype, {6, hidden}, cases.size());
            c.x.strides[0] = stride;
            place(c);
            cases.push_back(c);
          }
        }
      }
    }
  }
  run_all(cases, compare_fused);
}

// Every offset of each tensor within a vector, one and all together.
TEST_F(FusedViews, EveryAddress) {
  std::vector<FusedShifts> shifts;
  for (int64_t shift = 1; shift <= 17; ++shift) {
    for (int64_t FusedShifts::*member :
         {&FusedShifts::x, &FusedShifts::weight, &FusedShifts::residual, &FusedShifts::codes,
          &FusedShifts::scales, &FusedShifts::row}) {
      FusedShifts one;
      one.*member = shift;
      shifts.push_back(one);
    }
    shifts.push_back({shift, 18 - shift, 2 * shift, 19 - shift, shift / 2, 20 - shift});
    shifts.push_back({shift, shift, shift, shift, shift, shift});
  }
  std::vector<FusedCase> cases;
  for (const FusedShifts& shift : shifts) {
    for (const Producer& producer : kProducers) {
      for (const Recipe& recipe :
           {per_token(), per_group(128), with(per_group(128), ScaleEncoding::ue8m0_packed),
            with(per_group(16), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma),
            with(per_tensor(), ScaleSource::given), per_group(7)}) {
        for (DType dtype : kFloats) {
          for (const Shape& shape : {Shape{5, 256}, Shape{3, 150}}) {
            FusedCase c =
                fused_case(producer, recipe, PoolKind::finite, dtype, shape, cases.size());
            c.producer.weight = kFloats[cases.size() % 3];
            c.row_out = RowOut::stored;
            c.shift = shift;
            cases.push_back(c);
          }
        }
      }
    }
  }
  run_all(cases, compare_fused);
  run_all(cases, compare_separate);
}

// Attention's output, as the product of MLA's value up-projection leaves it.
TEST_F(FusedViews, AttentionOutput) {
  struct Heads {
    int64_t heads, tokens, dim;
  };
  std::vector<QuantizeCase> cases;
  for (const Heads& size :
       {Heads{16, 1, 128}, Heads{16, 33, 128}, Heads{128, 4, 128}, Heads{40, 17, 64},
        Heads{8, 129, 128}, Heads{12, 7, 80}, Heads{3, 1025, 256}, Heads{5, 9, 33},
        Heads{1, 6, 512}, Heads{7, 0, 128}}) {
    for (int64_t gap : {0, 8, 3}) {  // between heads
      const int64_t head = size.tokens * size.dim + gap;
      for (const Recipe& recipe : fused_recipes({128, 64, 16})) {
        for (DType dtype : kFloats) {
          for (PoolKind kind : kAllPoolKinds) {
            QuantizeCase c{
                recipe, &data_pool(kind, dtype),
                shape_view(dtype, {size.heads, size.tokens, size.dim}, {head, size.dim, 1})
                    .as_rows({1}, {0, 2})};
            c.seed = cases.size();
            c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes, 64);
            cases.push_back(c);
          }
        }
      }
    }
  }
  run_all(cases, compare_quantize);
}

}  // namespace
}  // namespace rowscale::test
