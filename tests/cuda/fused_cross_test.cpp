// The full cross of norms and activations: every operator and dtype with every number of tokens and
// hidden up to 2^20 elements of input and every recipe that a fused operator takes, codes, scales,
// pads, rows and updated residuals equal to the CPU's byte for byte. What the CPU gives is held to
// independent models by tests/golden and tests/api.
//
// What shares nothing with the shape (format, row_out, the weight's dtype, Gemma's form, kind of
// data) is drawn for each case.
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/fused_recipes.hpp"
#include "tests/cuda/support/shapes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};
constexpr NormForm kForms[] = {NormForm::standard, NormForm::gemma};
constexpr float kEpsilons[] = {1e-6F, 1e-5F, 0.0F};
constexpr Format kFormats[] = {Format::e4m3, Format::e5m2};

class FusedCross : public GpuTest, public testing::WithParamInterface<std::tuple<size_t, DType>> {
 protected:
  [[nodiscard]] static const Producer& producer() { return kProducers[std::get<0>(GetParam())]; }
  [[nodiscard]] static DType dtype() { return std::get<1>(GetParam()); }

  // Those whose input has at most as many elements as a case of the cross may.
  [[nodiscard]] static std::vector<Matrix> shapes() {
    return cross_shapes(-1, kMostSmallElements / producer().inputs());
  }
  [[nodiscard]] static Producer drawn(Random& random) {
    Producer out = producer();
    out.weight = random.pick(kFloats);
    out.form = random.pick(kForms);
    out.eps = random.pick(kEpsilons);
    return out;
  }
  // Long rows of the mixed kind of data have a NaN somewhere, which for a norm is all that there
  // is.
  [[nodiscard]] static PoolKind drawn_kind(Random& random, const Matrix& shape) {
    const int64_t mixed_of = producer().is_norm() && shape.hidden > 1000 ? 8 : 2;
    return random.below(mixed_of) == 0 ? PoolKind::mixed : PoolKind::finite;
  }
};

TEST_P(FusedCross, Separate) {
  std::vector<FusedCase> cases;
  Random random(1);
  for (const Matrix& shape : shapes()) {
    for (DType weight : kFloats) {
      for (NormForm form : kForms) {
        for (PoolKind kind : kAllPoolKinds) {
          Producer chosen = drawn(random);
          chosen.weight = weight;
          chosen.form = form;
          cases.push_back(
              fused_case(chosen, {}, kind, dtype(), {shape.tokens, shape.hidden}, cases.size()));
        }
        if (!producer().is_norm()) break;
      }
      if (!producer().is_norm()) break;
    }
  }
  run_all(cases, compare_separate);
}

TEST_P(FusedCross, Quantize) {
  const std::vector<Recipe> recipes = fused_recipes({128, 64, 16, 7, 4096});
  std::vector<FusedCase> cases;
  Random random(2);
  for (const Matrix& shape : shapes()) {
    for (const Recipe& recipe : recipes) {
      FusedCase c =
          fused_case(drawn(random), with(recipe, random.pick(kFormats)), drawn_kind(random, shape),
                     dtype(), {shape.tokens, shape.hidden}, cases.size());
      c.row_out = random.below(2) == 0 ? RowOut::stored : RowOut::absent;
      cases.push_back(c);
    }
  }
  run_all(cases, compare_fused);
}

// Both sides on the GPU.
TEST_P(FusedCross, EqualsTheChain) {
  const std::vector<Recipe> recipes = fused_recipes({128, 16, 7});
  std::vector<FusedCase> cases;
  Random random(3);
  for (const Matrix& shape : kFewShapes) {
    for (const Recipe& recipe : recipes) {
      cases.push_back(fused_case(drawn(random), with(recipe, random.pick(kFormats)),
                                 drawn_kind(random, shape), dtype(), {shape.tokens, shape.hidden},
                                 cases.size()));
    }
  }
  run_all(cases, compare_with_chain);
}

INSTANTIATE_TEST_SUITE_P(All, FusedCross,
                         testing::Combine(testing::Range(size_t{0}, std::size(kProducers)),
                                          testing::Values(DType::bf16, DType::f16, DType::f32)),
                         [](const testing::TestParamInfo<FusedCross::ParamType>& test) {
                           return name_of(kProducers[std::get<0>(test.param)]) + "_" +
                                  to_string(std::get<1>(test.param));
                         });

// Rows of every length around the borders of a vector, a warp, the registers of a block and beyond
// them, one token and many: no number of threads may show in the sum of a norm.
class FusedLengths : public GpuTest {};

TEST_F(FusedLengths, OfRows) {
  std::vector<int64_t> lengths;
  for (int64_t length = 1; length <= 300; ++length) lengths.push_back(length);
  for (int64_t power = 512; power <= 131072; power *= 2) {
    for (int64_t step : {-8, -1, 0, 1, 8}) lengths.push_back(power + step);
    lengths.push_back(power / 2 * 3);
    lengths.push_back(power / 4 * 5);
  }
  std::vector<FusedCase> cases;
  for (int64_t hidden : lengths) {
    for (const Producer& producer : kProducers) {
      for (DType dtype : kFloats) {
        for (int64_t tokens : {1, hidden > 8192 ? 2 : 9}) {
          for (const Recipe& recipe : {per_token(), with(per_group(128), ScaleEncoding::f32,
                                                         ScaleLayout::column_major_tma)}) {
            Producer chosen = producer;
            chosen.weight = kFloats[cases.size() % 3];
            cases.push_back(fused_case(chosen, recipe, PoolKind::finite, dtype, {tokens, hidden},
                                       cases.size()));
          }
        }
      }
    }
  }
  run_all(cases, compare_fused);
}

}  // namespace
}  // namespace rowscale::test
