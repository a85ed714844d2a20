// Recipes: what `standard` means, and what is refused.
#include "rowscale/recipe.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

// The table of recipe.hpp, floors as the bits of their values: 1/(448*512) = 0x36924925,
// 1/(57344*512) = 0x33124925, 1e-10 = 0x2EDBE6FF.
struct Row {
  Profile profile;
  Recipe recipe;
  FloorKind floor;
  uint32_t e4m3_bits;
  uint32_t e5m2_bits;
  Quotient quotient;
  NanRule nan;
};

constexpr uint32_t kScale4 = 0x36924925;
constexpr uint32_t kScale5 = 0x33124925;
constexpr uint32_t kAmax = 0x2EDBE6FF;
constexpr uint32_t kOne = 0x3F800000;

std::vector<Row> table() {
  constexpr auto ours = Profile::rowscale;
  constexpr auto vllm = Profile::vllm;
  constexpr auto divide = Quotient::divide;
  constexpr auto propagate = NanRule::propagate;
  return {
      {ours, per_tensor(), FloorKind::scale, kScale4, kScale5, divide, propagate},
      {ours, per_token(), FloorKind::scale, kScale4, kScale5, divide, propagate},
      {ours, per_channel(), FloorKind::if_zero, kOne, kOne, divide, propagate},
      {ours, per_group(128), FloorKind::amax, kAmax, kAmax, divide, propagate},
      {ours, per_block(128, 128), FloorKind::amax, kAmax, kAmax, divide, propagate},
      {ours, per_column(), FloorKind::none, 0, 0, divide, propagate},
      {vllm, per_tensor(), FloorKind::if_zero, kScale4, kScale5, Quotient::reciprocal,
       NanRule::clamp_high},
      {vllm, per_token(), FloorKind::scale, kScale4, kScale5, divide, NanRule::clamp_high},
      {vllm, per_channel(), FloorKind::scale, kScale4, kScale5, divide, NanRule::clamp_high},
      {vllm, per_group(128), FloorKind::amax, kAmax, kAmax, divide, NanRule::clamp_low},
      {vllm, per_block(128, 128), FloorKind::amax, kAmax, kAmax, divide, NanRule::clamp_low},
  };
}

TEST(Resolve, Table) {
  for (const Row& row : table()) {
    for (Format format : {Format::e4m3, Format::e5m2}) {
      Recipe recipe = with(row.recipe, format);
      recipe.profile = row.profile;
      const Recipe resolved = resolve(recipe);
      EXPECT_EQ(resolved.floor.kind, row.floor) << to_string(recipe);
      EXPECT_EQ(std::bit_cast<uint32_t>(resolved.floor.value),
                format == Format::e4m3 ? row.e4m3_bits : row.e5m2_bits)
          << to_string(recipe);
      EXPECT_EQ(resolved.quotient, row.quotient) << to_string(recipe);
      EXPECT_EQ(resolved.nan, row.nan) << to_string(recipe);
      EXPECT_EQ(resolve(resolved), resolved);
      // What is chosen stays chosen.
      Recipe chosen = recipe;
      chosen.quotient = Quotient::reciprocal;
      chosen.nan = NanRule::clamp_low;
      chosen.floor = {FloorKind::scale, 0.5F};
      if (row.recipe.scale_source == ScaleSource::dynamic) {
        EXPECT_EQ(resolve(chosen).floor, (Floor{FloorKind::scale, 0.5F}));
      }
      EXPECT_EQ(resolve(chosen).quotient, Quotient::reciprocal);
      EXPECT_EQ(resolve(chosen).nan, NanRule::clamp_low);
    }
  }
}

TEST(Resolve, GivenScalesHaveNoFloorAndNoBound) {
  for (const Row& row : table()) {
    Recipe recipe = with(row.recipe, ScaleSource::given);
    recipe.profile = row.profile;
    recipe.bound = {BoundKind::amax, 3.0F};
    recipe.floor = {FloorKind::amax, 2.0F};
    const Recipe resolved = resolve(recipe);
    EXPECT_EQ(resolved.floor, (Floor{FloorKind::none, 0.0F}));
    EXPECT_EQ(resolved.bound, (Bound{BoundKind::none, 0.0F}));
    const bool vllm = row.profile == Profile::vllm;
    EXPECT_EQ(resolved.quotient, vllm ? Quotient::reciprocal : Quotient::divide);
    EXPECT_EQ(resolved.nan, vllm ? NanRule::clamp_high : NanRule::propagate);
  }
}

// Fields that a granularity does not use do not make recipes differ.
TEST(Resolve, UnusedFieldsAreZero) {
  Recipe recipe = per_token();
  recipe.group_size = 128;
  recipe.block_rows = 3;
  recipe.block_columns = 4;
  EXPECT_EQ(resolve(recipe), resolve(per_token()));
  Recipe packed = with(per_group(128), ScaleEncoding::ue8m0_packed, ScaleLayout::column_major_tma);
  EXPECT_EQ(resolve(packed), resolve(with(per_group(128), ScaleEncoding::ue8m0_packed)));
}

TEST(Check, AcceptsAllCombinations) {
  for (const Recipe& recipe : all_recipes(1, 1, 1)) {
    EXPECT_TRUE(check(recipe).ok()) << check(recipe).message();
    EXPECT_TRUE(check(with(recipe, ScaleSource::given)).ok());
  }
}

void expect_refused(const Recipe& recipe, const std::vector<std::string>& words) {
  const Status status = check(recipe);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos)
        << "'" << word << "' is not in: " << status.message();
  }
  // Whoever takes a recipe refuses it in the same words.
  ScaleSpec spec;
  spec.rank = 77;
  TensorView codes = TensorView::contiguous(static_cast<void*>(nullptr), DType::e4m3, {4, 256});
  EXPECT_EQ(scale_spec(codes, recipe, &spec).message(), status.message());
  EXPECT_EQ(spec.rank, 77);
  EXPECT_EQ(to_string(recipe), "invalid recipe: " + status.message());
}

TEST(Check, RefusesValuesOutOfEveryEnumeration) {
  for (int32_t wrong : {-1, 99, INT32_MIN, INT32_MAX}) {
    const std::string got = "got " + std::to_string(wrong);
    Recipe r = per_token();
    r.granularity = static_cast<Granularity>(wrong);
    expect_refused(r, {"recipe.granularity", "per_tensor", "per_block", got});
    r = per_token();
    r.format = static_cast<Format>(wrong);
    expect_refused(r, {"recipe.format", "e4m3, e5m2", got});
    r = per_token();
    r.scale_source = static_cast<ScaleSource>(wrong);
    expect_refused(r, {"recipe.scale_source", "dynamic, given", got});
    r = per_token();
    r.encoding = static_cast<ScaleEncoding>(wrong);
    expect_refused(r, {"recipe.encoding", "ue8m0_packed", got});
    r = per_token();
    r.layout = static_cast<ScaleLayout>(wrong);
    expect_refused(r, {"recipe.layout", "column_major_tma", got});
    r = per_token();
    r.floor.kind = static_cast<FloorKind>(wrong);
    expect_refused(r, {"recipe.floor.kind", "if_zero", got});
    r = per_token();
    r.bound.kind = static_cast<BoundKind>(wrong);
    expect_refused(r, {"recipe.bound.kind", "amax", got});
    r = per_token();
    r.quotient = static_cast<Quotient>(wrong);
    expect_refused(r, {"recipe.quotient", "reciprocal", got});
    r = per_token();
    r.nan = static_cast<NanRule>(wrong);
    expect_refused(r, {"recipe.nan", "clamp_low", got});
    r = per_token();
    r.profile = static_cast<Profile>(wrong);
    expect_refused(r, {"recipe.profile", "vllm", got});
  }
}

TEST(Check, RefusesWhatNoInputCouldSatisfy) {
  expect_refused(per_group(0), {"recipe.group_size", "at least 1", "got 0"});
  expect_refused(per_group(-128), {"recipe.group_size", "got -128"});
  expect_refused(per_block(0, 128), {"recipe.block_rows", "got 0, 128"});
  expect_refused(per_block(128, -1), {"recipe.block_rows, block_columns", "got 128, -1"});
  expect_refused(with(per_column(), ScaleSource::dynamic),
                 {"recipe.scale_source", "given for per_column", "got dynamic"});
  for (const Recipe& recipe : {per_tensor(), per_token(), per_channel(), per_block(2, 2)}) {
    expect_refused(with(recipe, ScaleEncoding::ue8m0_packed),
                   {"recipe.encoding", "per_group only"});
    expect_refused(with(recipe, ScaleEncoding::f32, ScaleLayout::column_major),
                   {"recipe.layout", "got column_major"});
    expect_refused(with(recipe, ScaleEncoding::f32, ScaleLayout::column_major_tma),
                   {"recipe.layout", "got column_major_tma"});
  }
  for (const Recipe& recipe : {per_tensor(), per_token(), per_channel(), per_group(2)}) {
    expect_refused(with(recipe, ScaleEncoding::f32, ScaleLayout::block_k4),
                   {"recipe.layout", "per_block only"});
  }
}

TEST(Check, FloorValues) {
  for (FloorKind kind : {FloorKind::amax, FloorKind::scale, FloorKind::if_zero}) {
    for (float bad : {-0.0F, -1.0F, -0x1p-149F, INFINITY, -INFINITY, NAN}) {
      Recipe recipe = per_token();
      recipe.floor = {kind, bad};
      expect_refused(recipe, {"recipe.floor.value", "finite value >= +0"});
    }
    for (float good : {0.0F, 0x1p-149F, 3e38F}) {
      Recipe recipe = per_token();
      recipe.floor = {kind, good};
      EXPECT_TRUE(check(recipe).ok()) << good;
    }
  }
  // A value that no kind uses does not matter, and any bound is allowed.
  Recipe recipe = per_token();
  recipe.floor = {FloorKind::none, NAN};
  EXPECT_TRUE(check(recipe).ok());
  recipe = per_token();
  recipe.bound = {BoundKind::amax, NAN};
  EXPECT_TRUE(check(recipe).ok());
}

}  // namespace
}  // namespace rowscale::test
