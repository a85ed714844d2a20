// The full cross: every recipe of the table, scale encoding, layout, dtype and format with every
// number of tokens and hidden up to 2^20 elements, codes, scales and pads equal to the CPU's byte
// for byte. What the CPU gives is held to an independent model by tests/golden.
//
// Dynamic scales see both kinds of data; given ones only the mixed kind, which holds the finite one
// too: without an amax nothing depends on its company. Sizes of groups and blocks other than 128
// are in units_test.cpp, larger tensors in large_test.cpp.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/shapes.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

struct Family {
  const char* name;
  std::vector<Recipe> recipes;  // dynamic but for per_column
};

std::vector<Recipe> encodings_of(const Recipe& recipe) {
  std::vector<Recipe> recipes;
  for (ScaleEncoding encoding : kUnpackedEncodings) recipes.push_back(with(recipe, encoding));
  return recipes;
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"per_tensor", encodings_of(per_tensor())},
      {"per_token", encodings_of(per_token())},
      {"per_channel", encodings_of(per_channel())},
      {"per_column", encodings_of(per_column())},
      {"per_group", group_recipes(128)},
      {"per_block", block_recipes(128, 128)},
  };
  return all;
}

std::vector<Recipe> formats_and_sources(const std::vector<Recipe>& recipes) {
  std::vector<Recipe> all;
  all.reserve(recipes.size() * 4);
  for (const Recipe& recipe : recipes) {
    for (Format format : {Format::e4m3, Format::e5m2}) {
      all.push_back(with(recipe, format));
      if (recipe.scale_source == ScaleSource::given) continue;
      all.push_back(with(with(recipe, format), ScaleSource::given));
    }
  }
  return all;
}

class Cross : public GpuTest, public testing::WithParamInterface<std::tuple<size_t, DType>> {
 protected:
  [[nodiscard]] static const Family& family() { return families()[std::get<0>(GetParam())]; }
  [[nodiscard]] static DType dtype() { return std::get<1>(GetParam()); }
};

TEST_P(Cross, Quantize) {
  std::vector<QuantizeCase> cases;
  for (const Matrix& shape : cross_shapes(-1, kMostSmallElements)) {
    for (const Recipe& recipe : formats_and_sources(family().recipes)) {
      for (PoolKind kind : kAllPoolKinds) {
        if (recipe.scale_source == ScaleSource::given && kind == PoolKind::finite) continue;
        QuantizeCase c{recipe, &data_pool(kind, dtype()),
                       shape_view(dtype(), {shape.tokens, shape.hidden})};
        c.seed = cases.size();
        c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes, 64);
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_quantize);
}

TEST_P(Cross, Dequantize) {
  std::vector<DequantizeCase> cases;
  for (const Matrix& shape : cross_shapes(-1, kMostSmallElements)) {
    for (const Recipe& recipe : family().recipes) {
      for (Format format : {Format::e4m3, Format::e5m2}) {
        DequantizeCase c{with(recipe, format),
                         shape_view(DType::e4m3, {shape.tokens, shape.hidden})};
        c.y = shape_view(dtype(), {shape.tokens, shape.hidden});
        c.seed = cases.size();
        c.codes_begin = window(c.seed, code_pool().size - shape.elements(), 64);
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_dequantize);
}

INSTANTIATE_TEST_SUITE_P(All, Cross,
                         testing::Combine(testing::Range(size_t{0}, size_t{6}),
                                          testing::Values(DType::bf16, DType::f16, DType::f32)),
                         [](const testing::TestParamInfo<Cross::ParamType>& test) {
                           return std::string(families()[std::get<0>(test.param)].name) + "_" +
                                  to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace rowscale::test
