// Some hundred calls of norms and activations that reach every kind of row, pad and mask: for tools
// that slow a kernel down a hundred times, and for the second build with the codec in software.
#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
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

}  // namespace
}  // namespace rowscale::test
