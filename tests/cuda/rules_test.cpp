// Every field of a recipe that changes a scale or a code: floors, bounds, quotients, NaN rules,
// profiles, and scales that are given, whatever they are.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/shapes.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

const Floor kFloors[] = {
    {FloorKind::standard, 0.0F}, {FloorKind::none, 0.0F},        {FloorKind::amax, 1e-4F},
    {FloorKind::amax, 0.0F},     {FloorKind::scale, 0.25F},      {FloorKind::scale, 0x1p-149F},
    {FloorKind::if_zero, 1.0F},  {FloorKind::if_zero, 0x1p-20F}, {FloorKind::if_zero, 0.0F},
    {FloorKind::amax, 1000.0F},
};
const Bound kBounds[] = {
    {BoundKind::none, 0.0F},       {BoundKind::amax, 1.5F},  {BoundKind::amax, 0.0F},
    {BoundKind::amax, -3.0F},      {BoundKind::amax, NAN},   {BoundKind::amax, 0x1p-140F},
    {BoundKind::scale, 0x1p-8F},   {BoundKind::scale, NAN},  {BoundKind::scale, -1.0F},
    {BoundKind::scale, 0x1p-146F}, {BoundKind::amax, 3e38F}, {BoundKind::scale, 1e-12F},
};

std::vector<Recipe> dynamic_recipes() {
  return {per_tensor(),
          per_token(),
          per_channel(),
          per_group(128),
          per_group(20),
          per_block(2, 64),
          with(per_group(128), ScaleEncoding::ue8m0_f32),
          with(per_group(32), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma),
          with(per_group(32), ScaleEncoding::ue8m0_packed),
          with(per_token(), ScaleEncoding::ue8m0)};
}

void add_cases(std::vector<QuantizeCase>& cases, const Recipe& recipe,
               const std::vector<Matrix>& shapes) {
  for (const Matrix& shape : shapes) {
    for (DType dtype : kFloats) {
      for (PoolKind kind : kAllPoolKinds) {
        QuantizeCase c{recipe, &data_pool(kind, dtype),
                       shape_view(dtype, {shape.tokens, shape.hidden})};
        c.seed = cases.size();
        c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes, 64);
        cases.push_back(c);
      }
    }
  }
}

class Rules : public GpuTest {};

TEST_F(Rules, FloorsAndBounds) {
  std::vector<QuantizeCase> cases;
  for (const Recipe& base : dynamic_recipes()) {
    for (const Floor& floor : kFloors) {
      for (const Bound& bound : kBounds) {
        for (Format format : {Format::e4m3, Format::e5m2}) {
          Recipe recipe = with(base, format);
          recipe.floor = floor;
          recipe.bound = bound;
          add_cases(cases, recipe, {{3, 640}, {2, 150}, {0, 64}});
        }
      }
    }
  }
  run_all(cases, compare_quantize);
}

TEST_F(Rules, QuotientsNanRulesAndProfiles) {
  std::vector<QuantizeCase> cases;
  std::vector<Recipe> bases;
  for (const Recipe& recipe : dynamic_recipes()) {
    bases.push_back(recipe);
    bases.push_back(with(recipe, ScaleSource::given));
  }
  bases.push_back(per_column());
  for (const Recipe& base : bases) {
    for (Quotient quotient : {Quotient::standard, Quotient::divide, Quotient::reciprocal}) {
      for (NanRule nan :
           {NanRule::standard, NanRule::propagate, NanRule::clamp_high, NanRule::clamp_low}) {
        for (Profile profile : {Profile::rowscale, Profile::vllm}) {
          for (const Bound& bound : {Bound{BoundKind::none, 0.0F}, Bound{BoundKind::amax, 1.5F}}) {
            for (Format format : {Format::e4m3, Format::e5m2}) {
              Recipe recipe = with(base, format);
              recipe.quotient = quotient;
              recipe.nan = nan;
              recipe.profile = profile;
              recipe.bound = bound;
              recipe.floor = cases.size() % 5 == 0 ? Floor{FloorKind::none, 0.0F} : base.floor;
              add_cases(cases, recipe, {{5, 512}, {3, 77}});
            }
          }
        }
      }
    }
  }
  run_all(cases, compare_quantize);
}

// Each scale of a list for a whole tensor of values that exercise it: zero, negative, NaN,
// infinite, subnormal, and around the borders of the quotient without a division.
TEST_F(Rules, GivenScalesOneByOne) {
  std::vector<float> scales = {0.0F,       -0.0F,       1.0F,      -1.0F,   0.3F,
                               -0.3F,      INFINITY,    -INFINITY, NAN,     0x1p-149F,
                               -0x1p-149F, 0x1.8p-130F, 0x1p-126F, 3.4e38F, -3.4e38F};
  for (int exponent : {-127, -97, -96, -95, -81, -80, -79, 95, 96, 97, 125, 126, 127}) {
    for (float significand : {1.0F, 0x1.000002p0F, 0x1.fffffep0F}) {
      scales.push_back(std::ldexp(significand, exponent));
      scales.push_back(-std::ldexp(significand, exponent));
    }
  }
  struct Case {
    float scale;
    Recipe recipe;
    DType dtype;
    PoolKind kind;
  };
  std::vector<Case> cases;
  for (float scale : scales) {
    for (Quotient quotient : {Quotient::divide, Quotient::reciprocal}) {
      for (Format format : {Format::e4m3, Format::e5m2}) {
        for (DType dtype : kFloats) {
          for (PoolKind kind : kAllPoolKinds) {
            Recipe recipe = with(with(per_tensor(), format), ScaleSource::given);
            recipe.quotient = quotient;
            cases.push_back({scale, recipe, dtype, kind});
          }
        }
      }
    }
  }
  run_all(cases, [](Lane& lane, const Case& c) {
    const QuantizeCase q{c.recipe, &data_pool(c.kind, c.dtype), shape_view(c.dtype, {64, 1024})};
    QuantizeSlots slots;
    slots.codes = lane.reserve("codes", codes_of(q), q.x.rows() * q.x.columns());
    slots.scales = lane.fill("scales", shape_view(DType::f32, {1}),
                             reinterpret_cast<const std::byte*>(&c.scale), 4);
    const auto difference = lane.compare(
        {}, workspace_bytes(q), [&](const Side& side) { return quantize_on(side, q, slots); });
    return difference ? to_string(*difference, q) + " scale " + std::to_string(c.scale)
                      : std::string();
  });
}

}  // namespace
}  // namespace rowscale::test
