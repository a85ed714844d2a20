// Profile vllm behind the operators that vLLM fuses: cast points, floors and bounds of its own, on
// the GPU as on the CPU, which tests/api holds to a model of each of vLLM's operators.
#include <gtest/gtest.h>

#include <iterator>
#include <vector>

#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/shapes.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

std::vector<Recipe> vllm_recipes() {
  std::vector<Recipe> recipes = {
      per_token(),
      bounded(per_token(), {BoundKind::amax, 1.5F}),
      per_group(128),
      per_group(64),
      with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma),
      with(per_group(128), ScaleEncoding::ue8m0_packed),
      with(per_token(), Format::e5m2),
      per_group(7),
      with(per_tensor(), ScaleSource::given),
  };
  for (Recipe& recipe : recipes) recipe.profile = Profile::vllm;
  return recipes;
}

class FusedVllm : public GpuTest {};

TEST_F(FusedVllm, NormsAndSilu) {
  std::vector<FusedCase> cases;
  std::vector<Matrix> shapes(std::begin(kFewShapes), std::end(kFewShapes));
  shapes.push_back({0, 128});
  shapes.push_back({33, 7168});
  for (const Matrix& shape : shapes) {
    for (const Producer& producer : kProducers) {
      if (!producer.is_norm() && producer.kind != plan::SourceKind::silu_mul) continue;
      for (const Recipe& recipe : vllm_recipes()) {
        for (DType dtype : kFloats) {
          for (PoolKind kind : kAllPoolKinds) {
            FusedCase c = fused_case(producer, recipe, kind, dtype, {shape.tokens, shape.hidden},
                                     cases.size());
            c.producer.weight = dtype;
            cases.push_back(c);
          }
        }
      }
    }
  }
  run_all(cases, compare_fused);
}

}  // namespace
}  // namespace rowscale::test
