// What must hold for any input, whatever the implementation: random shapes, recipes and data,
// checked with long double arithmetic and with the formats' definition. rapidcheck shrinks a
// failure to a small one and prints it.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "rowscale/rowscale.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale {
namespace {

// A code's value and the distance to its neighbours, by definition.
struct Decoded {
  long double value;
  long double step;
};

Decoded decode_by_definition(uint8_t code, Format format) {
  const int mantissa_bits = format == Format::e4m3 ? 3 : 2;
  const int bias = format == Format::e4m3 ? 7 : 15;
  const int exponent = (code & 0x7F) >> mantissa_bits;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const int scale = std::max(exponent, 1) - bias - mantissa_bits;
  const int significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  const long double magnitude = std::ldexp(static_cast<long double>(significand), scale);
  return {(code & 0x80) != 0 ? -magnitude : magnitude, std::ldexp(1.0L, scale)};
}

// Finite floats over many binades, zeros among them.
rc::Gen<float> any_value() {
  return rc::gen::apply(
      [](int mantissa, int exponent) { return std::ldexp(static_cast<float>(mantissa), exponent); },
      rc::gen::inRange(-4096, 4096), rc::gen::inRange(-40, 20));
}

struct Problem {
  int64_t rows, columns;
  std::vector<float> x;
  Recipe recipe;
  Target target;
};

Problem any_problem() {
  Problem p;
  p.rows = *rc::gen::inRange<int64_t>(1, 7);
  p.columns = *rc::gen::inRange<int64_t>(1, 300);
  p.x =
      *rc::gen::container<std::vector<float>>(static_cast<size_t>(p.rows * p.columns), any_value());
  const auto size = rc::gen::inRange<int64_t>(1, 130);
  std::vector<Recipe> recipes = test::all_recipes(*size, *rc::gen::inRange<int64_t>(1, 9), *size);
  std::erase_if(recipes, [](const Recipe& r) { return r.scale_source == ScaleSource::given; });
  p.recipe = *rc::gen::elementOf(recipes);
  p.recipe.format = *rc::gen::element(Format::e4m3, Format::e5m2);
  p.target = *rc::gen::elementOf(supported_targets());
  return p;
}

// Codes, and each element's scale as dequantize applies it: codes of 1.0 read back.
struct Result {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

Result run(const Problem& p) {
  const DType code_type = p.recipe.format == Format::e4m3 ? DType::e4m3 : DType::e5m2;
  Result result;
  result.codes.resize(p.x.size());
  result.scales.resize(p.x.size());
  const auto x = TensorView::contiguous(p.x.data(), DType::f32, {p.rows, p.columns});
  const auto codes = TensorView::contiguous(result.codes.data(), code_type, {p.rows, p.columns});
  ScaleSpec spec;
  RC_ASSERT(scale_spec(codes, p.recipe, &spec).ok());
  std::vector<int32_t> storage(static_cast<size_t>(spec.allocation));
  const TensorView scales = spec.view(storage.data());
  Exec exec;
  exec.target = p.target;
  RC_ASSERT(quantize(x, p.recipe, codes, scales, exec).ok());

  const uint8_t one = p.recipe.format == Format::e4m3 ? 0x38 : 0x3C;
  const std::vector<uint8_t> ones(p.x.size(), one);
  const auto one_codes = TensorView::contiguous(ones.data(), code_type, {p.rows, p.columns});
  const auto y = TensorView::contiguous(result.scales.data(), DType::f32, {p.rows, p.columns});
  RC_ASSERT(dequantize(one_codes, scales, p.recipe, y, exec).ok());
  return result;
}

TEST(Properties, EveryCodeIsTheNearestOfItsQuotient) {
  EXPECT_TRUE(rc::check([] {
    const Problem p = any_problem();
    const Result r = run(p);
    const long double max = p.recipe.format == Format::e4m3 ? 448.0L : 57344.0L;
    for (size_t i = 0; i < p.x.size(); ++i) {
      const Decoded code = decode_by_definition(r.codes[i], p.recipe.format);
      const long double quotient = static_cast<long double>(p.x[i]) / r.scales[i];
      // The quotient is rounded to fp32 once before it is rounded to a code.
      const long double slack = 1.0L + std::ldexp(1.0L, -23);
      RC_ASSERT(std::signbit(p.x[i]) == ((r.codes[i] & 0x80) != 0));
      RC_ASSERT(std::abs(quotient) <= max * slack);
      RC_ASSERT(std::abs(quotient - code.value) <=
                code.step / 2 * slack + std::abs(quotient) * std::ldexp(1.0L, -24));
    }
  }));
}

TEST(Properties, TheLargestElementOfAUnitUsesTheWholeRange) {
  EXPECT_TRUE(rc::check([] {
    Problem p = any_problem();
    p.recipe = test::with(per_group(*rc::gen::inRange<int64_t>(1, 130)), p.recipe.format);
    const Result r = run(p);
    const float max = p.recipe.format == Format::e4m3 ? 448.0F : 57344.0F;
    for (int64_t row = 0; row < p.rows; ++row) {
      for (int64_t begin = 0; begin < p.columns; begin += p.recipe.group_size) {
        float amax = 1e-10F;
        const int64_t end = std::min(begin + p.recipe.group_size, p.columns);
        for (int64_t c = begin; c < end; ++c) {
          amax = std::max(amax, std::abs(p.x[static_cast<size_t>(row * p.columns + c)]));
        }
        // Correctly rounded: half an ulp of the exact quotient at most.
        const long double exact = static_cast<long double>(amax) / max;
        const float scale = r.scales[static_cast<size_t>(row * p.columns + begin)];
        RC_ASSERT(std::abs(scale - exact) <= std::ldexp(exact, -24));
      }
    }
  }));
}

}  // namespace
}  // namespace rowscale
