// Recipes as text, both ways.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "rowscale/recipe.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

TEST(Text, OfTheDefaults) {
  EXPECT_EQ(to_string(per_group(128)),
            "granularity=per_group(128) format=e4m3 source=dynamic encoding=f32 layout=row_major "
            "floor=amax(0x2edbe6ff) bound=none quotient=divide nan=propagate profile=rowscale");
  Recipe recipe = with(with(per_tensor(), Format::e5m2), ScaleEncoding::ue8m0_f32);
  recipe.profile = Profile::vllm;
  recipe.bound = {BoundKind::scale, 1.0F};
  EXPECT_EQ(to_string(recipe),
            "granularity=per_tensor format=e5m2 source=dynamic encoding=ue8m0_f32 layout=row_major "
            "floor=if_zero(0x33124925) bound=scale(0x3f800000) quotient=reciprocal nan=clamp_high "
            "profile=vllm");
  EXPECT_EQ(
      to_string(with(with(per_group(64), ScaleEncoding::ue8m0_packed), ScaleSource::given)),
      "granularity=per_group(64) format=e4m3 source=given encoding=ue8m0_packed layout=packed "
      "floor=none bound=none quotient=divide nan=propagate profile=rowscale");
}

TEST(Text, RoundTripOfAllRecipes) {
  for (Recipe recipe : all_recipes(77, 3, INT64_MAX)) {
    for (ScaleSource source : {ScaleSource::dynamic, ScaleSource::given}) {
      if (recipe.granularity == Granularity::per_column && source == ScaleSource::dynamic) continue;
      recipe.scale_source = source;
      for (FloorKind floor : {FloorKind::standard, FloorKind::none, FloorKind::amax,
                              FloorKind::scale, FloorKind::if_zero}) {
        recipe.floor = {floor, floor == FloorKind::standard ? 0.0F : 0x1.234566p-30F};
        for (BoundKind bound : {BoundKind::none, BoundKind::amax, BoundKind::scale}) {
          for (float value : {-1.5F, NAN, 0x1p-149F}) {
            recipe.bound = {bound, value};
            for (NanRule nan :
                 {NanRule::standard, NanRule::propagate, NanRule::clamp_high, NanRule::clamp_low}) {
              recipe.nan = nan;
              recipe.quotient =
                  nan == NanRule::clamp_low ? Quotient::reciprocal : Quotient::standard;
              recipe.format = nan == NanRule::clamp_high ? Format::e5m2 : Format::e4m3;
              recipe.profile = nan == NanRule::standard ? Profile::vllm : Profile::rowscale;
              const std::string text = to_string(recipe);
              Recipe parsed;
              ASSERT_TRUE(parse_recipe(text, &parsed).ok()) << text;
              EXPECT_EQ(to_string(parsed), text);
              if (std::isnan(resolve(recipe).bound.value)) continue;  // NaN is not equal to itself
              EXPECT_EQ(resolve(parsed), resolve(recipe)) << text;
            }
          }
        }
      }
    }
  }
}

TEST(Text, ShortForms) {
  Recipe parsed = per_token();
  ASSERT_TRUE(parse_recipe("", &parsed).ok());
  EXPECT_EQ(parsed, per_tensor());
  ASSERT_TRUE(parse_recipe("  granularity=per_token   nan=standard ", &parsed).ok());
  EXPECT_EQ(parsed, per_token());
  ASSERT_TRUE(parse_recipe("granularity=per_column", &parsed).ok());
  EXPECT_EQ(parsed, per_column());
  ASSERT_TRUE(
      parse_recipe("granularity=per_block(128,64) floor=standard quotient=standard", &parsed).ok());
  EXPECT_EQ(parsed, per_block(128, 64));
}

TEST(Text, Errors) {
  struct Case {
    const char* text;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {"per_token", {"key=value", "'per_token'"}},
      {"granularity=per_row", {"granularity", "per_token", "'per_row'"}},
      {"granularity=per_group", {"granularity", "per_group(N)"}},
      {"granularity=per_group()", {"granularity"}},
      {"granularity=per_group(12x)", {"granularity", "'per_group(12x)'"}},
      {"granularity=per_group(12", {"granularity"}},
      {"granularity=per_group(99999999999999999999)", {"granularity"}},
      {"granularity=per_group(0)", {"recipe.group_size"}},
      {"granularity=per_block(128)", {"granularity", "per_block(R,C)"}},
      {"granularity=per_block(,)", {"granularity"}},
      {"granularity=per_token(3)", {"granularity"}},
      {"granularity=", {"granularity", "''"}},
      {"format=e4m3fnuz", {"format", "e4m3, e5m2", "'e4m3fnuz'"}},
      {"source=static", {"source", "dynamic, given", "'static'"}},
      {"encoding=packed", {"encoding", "ue8m0_packed", "'packed'"}},
      {"layout=tma", {"layout", "column_major_tma", "'tma'"}},
      {"floor=amax", {"floor", "amax(BITS)"}},
      {"floor=amax(1e-10)", {"floor", "'amax(1e-10)'"}},
      {"floor=amax(0x)", {"floor"}},
      {"floor=amax(0x123456789)", {"floor"}},
      {"floor=none(0x0)", {"floor"}},
      {"floor=scale(0xbf800000)", {"recipe.floor.value"}},
      {"bound=max(0x0)", {"bound", "scale(BITS)"}},
      {"quotient=multiply", {"quotient", "divide, reciprocal"}},
      {"nan=zero", {"nan", "clamp_high"}},
      {"profile=torch", {"profile", "rowscale, vllm"}},
      {"size=128", {"'size'"}},
      {"=x", {"''"}},
      {"granularity=per_token encoding=ue8m0_packed", {"recipe.encoding"}},
  };
  for (const Case& c : cases) {
    Recipe parsed = per_channel();
    const Status status = parse_recipe(c.text, &parsed);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << c.text;
    for (const std::string& word : c.words) {
      EXPECT_NE(status.message().find(word), std::string::npos)
          << c.text << ": '" << word << "' is not in: " << status.message();
    }
    EXPECT_EQ(parsed, per_channel()) << c.text << " changed the result";
  }
  EXPECT_FALSE(parse_recipe("", nullptr).ok());
}

}  // namespace
}  // namespace rowscale::test
