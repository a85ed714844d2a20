// Every SIMD target against the scalar reference through the public operators, bit for bit: codes,
// scales, pads, what must stay unwritten, and the bytes beside each output. That the reference
// itself is right is what tests/golden and tests/numerics hold.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/sweep.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};
constexpr int64_t kHidden[] = {1,   2,   3,   7,   8,   15,   16,   17,   31,   33,    46,   64,
                               127, 128, 129, 255, 640, 1368, 4096, 8192, 8193, 10000, 20000};

std::vector<Target> simd_targets() {
  std::vector<Target> targets = supported_targets();
  std::erase(targets, Target::scalar);
  return targets;
}

// Where a comparison stands, for the message of a failure.
std::string describe(const Recipe& recipe, const TensorView& x, Data data) {
  return to_string(recipe) + "\nx " + to_string(x) + ", " + to_string(data);
}

// run(exec) by the reference and by every SIMD target.
template <class Run>
void expect_all_targets_equal(const std::string& what, Run&& run) {
  const Outputs reference = run(on(Target::scalar));
  for (Target target : simd_targets()) {
    EXPECT_TRUE(same_outputs(run(on(target)), reference)) << to_string(target) << ": " << what;
  }
}

CallOptions options_for(const TensorView& x, int64_t columns, const Recipe& recipe, uint64_t seed) {
  CallOptions options;
  options.shift = static_cast<int64_t>(seed % 3);
  if (recipe.scale_source == ScaleSource::given) {
    const TensorView codes = view_of(nullptr, code_dtype(recipe), row_shape(x, columns));
    options.given = make_scales(spec_of(codes, recipe), recipe.encoding, seed);
  }
  return options;
}

void compare_quantize(const Recipe& recipe, DType dtype, const std::vector<int64_t>& shape,
                      Data data, uint64_t seed) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  const std::vector<std::byte> bytes = make_data(data, dtype, count, seed);
  const TensorView x = view_of(bytes.data(), dtype, shape);
  CallOptions options = options_for(x, x.columns(), recipe, seed);
  expect_all_targets_equal(describe(recipe, x, data), [&](const Exec& exec) {
    options.exec = exec;
    return run_quantize(x, recipe, options);
  });
}

TEST(Targets, MoreThanTheReferenceIsThere) {
  // Without a SIMD target the tests of this file compare nothing.
  if (simd_targets().empty()) GTEST_SKIP() << "this machine runs the scalar reference only";
  SUCCEED();
}

class Quantize : public testing::TestWithParam<std::tuple<DType, Format>> {};

// Every choice of a recipe with every other, each time on another shape and other data.
TEST_P(Quantize, EveryRecipe) {
  const auto [dtype, format] = GetParam();
  uint64_t seed = 1000;
  for (int64_t group : {1, 7, 32, 128}) {
    for (Recipe recipe : all_recipes(group, 5, group + 9)) {
      recipe.format = format;
      for (ScaleSource source : {ScaleSource::dynamic, ScaleSource::given}) {
        if (recipe.granularity == Granularity::per_column && source == ScaleSource::dynamic)
          continue;
        recipe.scale_source = source;
        for (Quotient quotient : {Quotient::divide, Quotient::reciprocal}) {
          recipe.quotient = quotient;
          for (NanRule nan : {NanRule::propagate, NanRule::clamp_high, NanRule::clamp_low}) {
            recipe.nan = nan;
            Random random(++seed);
            const int64_t hidden = 1 + random.below(kSlower == 1 ? 300 : 90);
            const int64_t tokens = 1 + random.below(6);
            compare_quantize(recipe, dtype, {tokens, hidden}, random.pick(kAllData), seed);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

// Every width, where vectors, strips and rows end in all ways.
TEST_P(Quantize, EveryWidth) {
  const auto [dtype, format] = GetParam();
  uint64_t seed = 2000;
  for (int64_t hidden : kHidden) {
    if (kSlower > 1 && hidden > 8193) continue;
    for (const Recipe& base :
         {per_token(), per_tensor(), with(per_group(128), ScaleEncoding::ue8m0_packed),
          with(per_group(9000), ScaleEncoding::f32, ScaleLayout::column_major_tma),
          per_block(2, 96), per_column()}) {
      for (Data data : kAllData) {
        Recipe recipe = with(base, format);
        recipe.quotient = seed % 4 == 0 ? Quotient::reciprocal : Quotient::divide;
        compare_quantize(recipe, dtype, {hidden > 4000 ? 2 : 3, hidden}, data, ++seed);
        if (HasFailure()) return;
      }
    }
  }
}

// The rules that stand between amax and scale, where they take effect and where not.
TEST_P(Quantize, FloorsAndBounds) {
  const auto [dtype, format] = GetParam();
  uint64_t seed = 3000;
  for (FloorKind floor : {FloorKind::standard, FloorKind::none, FloorKind::amax, FloorKind::scale,
                          FloorKind::if_zero}) {
    for (BoundKind bound : {BoundKind::none, BoundKind::amax, BoundKind::scale}) {
      for (float value :
           {0.0F, 0x1p-149F, 1e-38F, 1e-30F, 1e-22F, 1e-10F, 0.25F, 1e20F, 1e30F, 3e38F}) {
        for (Data data : kAllData) {
          for (const Recipe& base : {per_token(), per_group(16),
                                     with(per_group(5), ScaleEncoding::ue8m0_f32), per_tensor()}) {
            Recipe recipe = with(base, format);
            recipe.floor = {floor, floor == FloorKind::standard ? 0.0F : value};
            recipe.bound = {bound, seed % 3 == 0 ? 1e25F : value};
            recipe.quotient = seed % 5 == 0 ? Quotient::reciprocal : Quotient::divide;
            compare_quantize(recipe, dtype, {4, 70}, data, ++seed);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(Quantize, Batches) {
  const auto [dtype, format] = GetParam();
  uint64_t seed = 4000;
  for (const Recipe& base : all_recipes(24, 3, 40)) {
    for (const auto& shape : {std::vector<int64_t>{2, 5, 100}, {2, 1, 3, 100}, {100}}) {
      compare_quantize(with(base, format), dtype, shape, Data::wide, ++seed);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Quantize,
                         testing::Combine(testing::ValuesIn(kFloats),
                                          testing::Values(Format::e4m3, Format::e5m2)),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) +
                                  (std::get<1>(test.param) == Format::e4m3 ? "_e4m3" : "_e5m2");
                         });

// All codes under scales of every kind, among them 0, negative, infinite, NaN and subnormal ones.
TEST(Targets, DequantizeEveryCode) {
  Random random(5);
  for (Format format : {Format::e4m3, Format::e5m2}) {
    for (const Recipe& base : all_recipes(21, 3, 50)) {
      const Recipe recipe = with(base, format);
      std::vector<uint8_t> codes(7 * 317);
      for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 3);
      const TensorView view = view_of(codes.data(), code_dtype(recipe), {7, 317});
      const ScaleSpec spec = spec_of(view, recipe);
      for (int round = 0; round < 4; ++round) {
        const auto scales = make_scales(spec, recipe.encoding, random.next());
        for (DType dtype : kFloats) {
          const TensorView scale_view = spec.view(scales.data());
          const auto reference =
              run_dequantize(view, scale_view, recipe, dtype, on(Target::scalar));
          for (Target target : simd_targets()) {
            ASSERT_TRUE(
                same_bytes(run_dequantize(view, scale_view, recipe, dtype, on(target)), reference))
                << to_string(target) << ": " << to_string(recipe) << " to " << to_string(dtype);
          }
        }
      }
    }
  }
}

TEST(Targets, Requantize) {
  uint64_t seed = 6000;
  const std::vector<Recipe> recipes = all_recipes(48, 4, 33);
  for (const Recipe& base_in : recipes) {
    for (const Recipe& base_out : recipes) {
      Random random(++seed);
      const Recipe in = with(base_in, random.below(2) == 0 ? Format::e4m3 : Format::e5m2);
      const Recipe out = with(base_out, random.below(2) == 0 ? Format::e4m3 : Format::e5m2);
      std::vector<uint8_t> codes(static_cast<size_t>(5 * 150));
      for (uint8_t& code : codes) code = static_cast<uint8_t>(random.next());
      const TensorView view = view_of(codes.data(), code_dtype(in), {5, 150});
      const ScaleSpec spec = spec_of(view, in);
      const auto scales = make_scales(spec, in.encoding, seed);
      CallOptions options = options_for(view, 150, out, seed);
      expect_all_targets_equal(describe(out, view, Data::raw), [&](const Exec& exec) {
        return call_quantizer(view, 150, out, options,
                              [&](const TensorView& codes_out, const TensorView& scales_out) {
                                return requantize(view, spec.view(scales.data()), in, codes_out,
                                                  scales_out, out, exec);
                              });
      });
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace rowscale::test
