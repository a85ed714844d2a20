// Which recipes, patterns and shapes a benchmark on a GPU measures.
#include "gpu/options.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "failure.hpp"

namespace rowscale::cli::gpu {
namespace {

std::vector<std::string> names(const Options& options) {
  std::vector<std::string> out;
  for (const NamedRecipe& one : chosen_recipes(options)) out.push_back(one.name);
  return out;
}

using Names = std::vector<std::string>;

TEST(GpuOptions, ShortAndWholeTexts) {
  Options options;
  options.recipes = {"per_token", "granularity=per_group(64) format=e5m2",
                     "per_group(128) encoding=ue8m0_packed", "per_tensor source=given"};
  EXPECT_EQ(names(options), (Names{"per_token", "per_group(64) e5m2", "per_group(128) ue8m0_packed",
                                   "per_tensor given"}));
  const std::vector<NamedRecipe> chosen = chosen_recipes(options);
  EXPECT_EQ(chosen[1].recipe.group_size, 64);
  EXPECT_EQ(chosen[2].recipe.encoding, ScaleEncoding::ue8m0_packed);
  EXPECT_EQ(chosen[3].recipe.scale_source, ScaleSource::given);
}

TEST(GpuOptions, EveryEncodingInEveryLayout) {
  Options options;
  options.recipes = {"per_group(128)"};
  options.encodings = {"f32", "ue8m0", "ue8m0_packed"};
  options.layouts = {"row_major", "column_major_tma"};
  EXPECT_EQ(names(options),
            (Names{"per_group(128)", "per_group(128) column_major_tma", "per_group(128) ue8m0",
                   "per_group(128) ue8m0 column_major_tma", "per_group(128) ue8m0_packed"}));
}

TEST(GpuOptions, LeavesOutWhatNoRecipeCanBe) {
  Options options;
  options.recipes = {"per_block(128,128)", "per_group(128)"};
  options.layouts = {"block_k4"};  // of blocks only
  EXPECT_EQ(names(options), (Names{"per_block(128,128) block_k4"}));
}

TEST(GpuOptions, TakesEveryWordThatARecipeKnows) {
  Options options;
  options.recipes = {"per_group(128)", "per_block(128,128)"};
  options.encodings = {"f32", "ue8m0_f32", "ue8m0", "ue8m0_packed"};
  options.layouts = {"row_major", "column_major", "column_major_tma", "block_k4"};
  EXPECT_GE(chosen_recipes(options).size(), 10U);
}

TEST(GpuOptions, RefusesWordsThatAreNone) {
  Options recipe;
  recipe.recipes = {"per_galaxy"};
  EXPECT_THROW(chosen_recipes(recipe), Failure);
  Options layout;
  layout.layouts = {"diagonal"};
  EXPECT_THROW(chosen_recipes(layout), Failure);
  Options pattern;
  pattern.patterns = {"zebra"};
  EXPECT_THROW(chosen_patterns(pattern), Failure);
}

TEST(GpuOptions, NormalDataComesFirstAndOnce) {
  Options options;
  options.patterns = {"relu", "normal", "zeros50"};
  EXPECT_EQ(chosen_patterns(options),
            (std::vector<Pattern>{Pattern::normal, Pattern::relu, Pattern::zeros_fifty}));
}

TEST(GpuOptions, EveryTokenCountOfEveryWidth) {
  Options options;
  options.tokens = {1, 16};
  options.hidden = {2048, 4096};
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const Shape& shape : chosen_shapes(options)) {
    shapes.emplace_back(shape.tokens, shape.hidden);
  }
  EXPECT_EQ(shapes, (std::vector<std::pair<int64_t, int64_t>>{
                        {1, 2048}, {16, 2048}, {1, 4096}, {16, 4096}}));
}

}  // namespace
}  // namespace rowscale::cli::gpu
