// What profile vllm means behind each source: the table of docs/numerics.md section 4.
#include "plan/fused_call.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "tests/support/recipes.hpp"

namespace rowscale::plan {
namespace {

using test::with;

constexpr SourceKind kAllKinds[] = {SourceKind::plain,         SourceKind::dequantized,
                                    SourceKind::rms_norm,      SourceKind::silu_mul,
                                    SourceKind::gelu_tanh_mul, SourceKind::relu2,
                                    SourceKind::swiglu_clamped};

FusedCall call_of(SourceKind kind, Recipe recipe, Profile profile = Profile::vllm) {
  Source source;
  source.kind = kind;
  recipe.profile = profile;
  return resolve(source, recipe);
}

Recipe given() {
  return with(per_tensor(), ScaleSource::given);
}

TEST(FusedCalls, OwnProfileIsThatOfTheRecipeAlone) {
  for (SourceKind kind : kAllKinds) {
    for (const Recipe& recipe : test::all_recipes(64, 2, 64)) {
      const FusedCall call = call_of(kind, recipe, Profile::rowscale);
      EXPECT_EQ(call.recipe, rowscale::resolve(recipe));
      EXPECT_EQ(call.source.residual_sum, ResidualSum::rounded);
      EXPECT_EQ(call.source.silu, SiluForm::rounded);
    }
  }
}

TEST(FusedCalls, PlainRowsFollowTheRecipeAlone) {
  for (Recipe recipe : {per_tensor(), per_token(), per_group(128), given()}) {
    recipe.profile = Profile::vllm;
    EXPECT_EQ(call_of(SourceKind::plain, recipe).recipe, rowscale::resolve(recipe));
  }
}

TEST(FusedCalls, GroupsHaveTheFloorOfTokens) {
  for (SourceKind kind : {SourceKind::rms_norm, SourceKind::silu_mul}) {
    for (const Recipe& recipe : {per_token(), per_group(64), per_group(7)}) {
      const Recipe got = call_of(kind, recipe).recipe;
      EXPECT_EQ(got.floor.kind, FloorKind::scale) << to_string(got);
      EXPECT_EQ(std::bit_cast<uint32_t>(got.floor.value), 0x36924925U) << to_string(got);
      EXPECT_EQ(got.nan, NanRule::clamp_high);
      EXPECT_EQ(got.quotient, Quotient::divide);
      EXPECT_EQ(got.group_size, recipe.group_size);
    }
    const Recipe fixed = call_of(kind, given()).recipe;
    EXPECT_EQ(fixed.floor.kind, FloorKind::none);
    EXPECT_EQ(fixed.nan, NanRule::clamp_high);
    EXPECT_EQ(fixed.quotient, Quotient::reciprocal);
    // What the caller names stays.
    Recipe named = per_group(64);
    named.floor = {FloorKind::amax, 0.5F};
    named.nan = NanRule::propagate;
    named.quotient = Quotient::reciprocal;
    named.bound = {BoundKind::scale, 2.0F};
    const Recipe kept = call_of(kind, named).recipe;
    EXPECT_EQ(kept.floor, named.floor);
    EXPECT_EQ(kept.nan, named.nan);
    EXPECT_EQ(kept.quotient, named.quotient);
    EXPECT_EQ(kept.bound, named.bound);
  }
}

TEST(FusedCalls, CastPoints) {
  const auto norm = [](const Recipe& recipe) {
    return call_of(SourceKind::rms_norm, recipe).source.residual_sum;
  };
  EXPECT_EQ(norm(given()), ResidualSum::rounded);
  EXPECT_EQ(norm(per_token()), ResidualSum::unrounded);
  EXPECT_EQ(norm(per_group(128)), ResidualSum::unrounded);
  const auto silu = [](const Recipe& recipe) {
    return call_of(SourceKind::silu_mul, recipe).source.silu;
  };
  EXPECT_EQ(silu(given()), SiluForm::quotient);
  EXPECT_EQ(silu(per_token()), SiluForm::quotient);
  EXPECT_EQ(silu(per_group(128)), SiluForm::product);
}

TEST(FusedCalls, OperatorsThatVllmHas) {
  for (SourceKind kind : kAllKinds) {
    const bool is_plain = kind == SourceKind::plain || kind == SourceKind::dequantized;
    const bool is_fused = kind == SourceKind::rms_norm || kind == SourceKind::silu_mul;
    for (const Recipe& recipe : {given(), per_token(), per_group(32)}) {
      EXPECT_EQ(has_vllm_operator(kind, recipe), is_plain || is_fused) << to_string(recipe);
    }
    for (const Recipe& recipe :
         {per_channel(), per_column(), with(per_token(), ScaleSource::given),
          with(per_group(32), ScaleSource::given), with(per_block(2, 32), ScaleSource::given)}) {
      EXPECT_EQ(has_vllm_operator(kind, recipe), is_plain) << to_string(recipe);
    }
  }
}

}  // namespace
}  // namespace rowscale::plan
