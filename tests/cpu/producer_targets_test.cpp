// The producers by every SIMD target against the scalar reference, alone and fused with quantize.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/sweep.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

constexpr int64_t kHidden[] = {1,    2,    3,    7,    8,    9,    15,   16,    17,
                               31,   33,   46,   64,   127,  128,  129,  255,   640,
                               1368, 2047, 2048, 2049, 4096, 8192, 8193, 10000, 20000};

struct Producer {
  std::string name;
  int64_t inputs;  // elements of x that make one
  std::function<Status(const TensorView& x, const TensorView& y, const Exec&)> separate;
  std::function<Status(const TensorView& x, const Recipe&, const TensorView& codes,
                       const TensorView& scales, const TensorView& row, const Exec&)>
      fused;
};

std::vector<Producer> activations() {
  return {
      {"silu_mul", 2, silu_mul, silu_mul_quantize},
      {"gelu_tanh_mul", 2, gelu_tanh_mul, gelu_tanh_mul_quantize},
      {"relu2", 1, relu2, relu2_quantize},
      {"swiglu_clamped", 2,
       [](const TensorView& x, const TensorView& y, const Exec& exec) {
         return swiglu_clamped(x, {}, y, exec);
       },
       [](const TensorView& x, const Recipe& recipe, const TensorView& codes,
          const TensorView& scales, const TensorView& row, const Exec& exec) {
         return swiglu_clamped_quantize(x, {}, recipe, codes, scales, row, exec);
       }},
  };
}

Recipe some_recipe(uint64_t seed) {
  const std::vector<Recipe> recipes = {
      per_token(), per_group(32), with(per_group(128), ScaleEncoding::ue8m0_packed),
      with(per_token(), ScaleSource::given), with(per_group(9000), Format::e5m2)};
  return recipes[seed % recipes.size()];
}

class Producers : public testing::TestWithParam<DType> {};

TEST_P(Producers, Activations) {
  const DType dtype = GetParam();
  uint64_t seed = 100;
  for (const Producer& producer : activations()) {
    for (int64_t hidden : kHidden) {
      if (kSlower > 1 && hidden > 8193) continue;
      for (Data data : {Data::normal, Data::wide, Data::raw}) {
        const int64_t tokens = hidden > 2000 ? 1 : 3;
        ++seed;
        const auto bytes = make_data(data, dtype, tokens * hidden * producer.inputs, seed);
        const TensorView x = view_of(bytes.data(), dtype, {tokens, hidden * producer.inputs});
        const Recipe recipe = some_recipe(seed);
        const auto run = [&](Target target) {
          CallOptions options;
          const TensorView codes = view_of(nullptr, code_dtype(recipe), {tokens, hidden});
          options.given = make_scales(spec_of(codes, recipe), recipe.encoding, seed);
          GuardedBuffer row(tokens * hidden * element_size(dtype), 1);
          Outputs out = call_quantizer(
              x, hidden, recipe, options, [&](const TensorView& c, const TensorView& s) {
                return producer.fused(x, recipe, c, s, view_of(row.data(), dtype, {tokens, hidden}),
                                      on(target));
              });
          EXPECT_TRUE(row.guards_are_unchanged());
          out.row = row.content();
          EXPECT_TRUE(same_bytes(call_into_rows(x, hidden, dtype,
                                                [&](const TensorView& y) {
                                                  return producer.separate(x, y, on(target));
                                                }),
                                 out.row))
              << producer.name << " alone and fused";
          return out;
        };
        const Outputs reference = run(Target::scalar);
        for (Target target : supported_targets()) {
          ASSERT_TRUE(same_outputs(run(target), reference))
              << producer.name << " " << to_string(target) << " " << to_string(x) << " "
              << to_string(data) << "\n"
              << to_string(recipe);
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Producers, Norms) {
  const DType dtype = GetParam();
  uint64_t seed = 500;
  for (int64_t hidden : kHidden) {
    if (kSlower > 1 && hidden > 8193) continue;
    for (Data data : {Data::normal, Data::wide, Data::raw}) {
      for (NormForm form : {NormForm::standard, NormForm::gemma}) {
        Random random(++seed);
        constexpr DType kWeights[] = {DType::f32, DType::f16, DType::bf16};
        const DType weight_dtype = random.pick(kWeights);
        const bool has_residual = random.below(2) == 0;
        const int64_t tokens = hidden > 2000 ? 1 : 3;
        const auto bytes = make_data(data, dtype, tokens * hidden, seed);
        const auto weight = make_data(Data::normal, weight_dtype, hidden, seed + 1);
        const auto residual = make_data(data, dtype, tokens * hidden, seed + 2);
        const TensorView x = view_of(bytes.data(), dtype, {tokens, hidden});
        const Recipe recipe = some_recipe(seed);
        const auto run = [&](Target target) {
          CallOptions options;
          const TensorView codes = view_of(nullptr, code_dtype(recipe), {tokens, hidden});
          options.given = make_scales(spec_of(codes, recipe), recipe.encoding, seed);
          RmsNorm norm;
          norm.weight = view_of(weight.data(), weight_dtype, {hidden});
          norm.form = form;
          std::vector<std::byte> updated = residual;
          if (has_residual) norm.residual = view_of(updated.data(), dtype, {tokens, hidden});
          GuardedBuffer row(tokens * hidden * element_size(dtype), 1);
          Outputs out = call_quantizer(
              x, hidden, recipe, options, [&](const TensorView& c, const TensorView& s) {
                return rms_norm_quantize(x, norm, recipe, c, s,
                                         view_of(row.data(), dtype, {tokens, hidden}), on(target));
              });
          EXPECT_TRUE(row.guards_are_unchanged());
          out.row = row.content();
          out.row.insert(out.row.end(), updated.begin(), updated.end());
          return out;
        };
        const Outputs reference = run(Target::scalar);
        for (Target target : supported_targets()) {
          ASSERT_TRUE(same_outputs(run(target), reference))
              << to_string(target) << " " << to_string(x) << " " << to_string(data) << "\n"
              << to_string(recipe);
        }
        if (HasFailure()) return;
      }
    }
  }
}

// Profile vllm has sources of its own.
TEST_P(Producers, VllmProfile) {
  const DType dtype = GetParam();
  uint64_t seed = 900;
  for (int64_t hidden : kHidden) {
    if (kSlower > 1 && hidden > 8193) continue;
    for (Data data : {Data::normal, Data::raw}) {
      for (Recipe recipe : {per_token(), per_group(128), per_group(9000)}) {
        recipe.profile = Profile::vllm;
        ++seed;
        const int64_t tokens = hidden > 2000 ? 1 : 3;
        const auto bytes = make_data(data, dtype, tokens * hidden * 2, seed);
        const auto weight = make_data(Data::normal, dtype, hidden, seed + 1);
        const auto residual = make_data(data, dtype, tokens * hidden, seed + 2);
        const TensorView pairs = view_of(bytes.data(), dtype, {tokens, 2 * hidden});
        const TensorView x = view_of(bytes.data(), dtype, {tokens, hidden});
        const auto run_silu = [&](Target target) {
          return call_quantizer(pairs, hidden, recipe, {},
                                [&](const TensorView& c, const TensorView& s) {
                                  return silu_mul_quantize(pairs, recipe, c, s, {}, on(target));
                                });
        };
        const auto run_norm = [&](Target target) {
          std::vector<std::byte> updated = residual;
          RmsNorm norm;
          norm.weight = view_of(weight.data(), dtype, {hidden});
          norm.residual = view_of(updated.data(), dtype, {tokens, hidden});
          Outputs out =
              call_quantizer(x, hidden, recipe, {}, [&](const TensorView& c, const TensorView& s) {
                return rms_norm_quantize(x, norm, recipe, c, s, {}, on(target));
              });
          out.row = updated;
          return out;
        };
        for (Target target : supported_targets()) {
          ASSERT_TRUE(same_outputs(run_silu(target), run_silu(Target::scalar)))
              << to_string(target) << " " << to_string(pairs) << "\n"
              << to_string(recipe);
          ASSERT_TRUE(same_outputs(run_norm(target), run_norm(Target::scalar)))
              << to_string(target) << " " << to_string(x) << "\n"
              << to_string(recipe);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Producers, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace rowscale::test
