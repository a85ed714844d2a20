#include "gpu/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "failure.hpp"
#include "model_shapes.hpp"

namespace rowscale::cli::gpu {
namespace {

constexpr const char* kOptionNames[] = {"--tokens",   "--model",  "--recipe", "--data",
                                        "--encoding", "--layout", "--calls"};

std::vector<std::string> default_recipes() {
  return {"per_group(128)",
          "per_group(128) layout=column_major_tma",
          "per_group(128) encoding=ue8m0_packed",
          "per_token",
          "per_block(128,128)",
          "per_tensor",
          "per_tensor source=given"};
}

// The words of a recipe's text, by key.
std::map<std::string, std::string> words_of(const Recipe& recipe) {
  std::map<std::string, std::string> words;
  std::istringstream text(to_string(recipe));
  std::string word;
  while (text >> word) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) words[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return words;
}

Recipe parsed(const std::string& option, const std::string& text) {
  Recipe recipe;
  const Status status = parse_recipe(text, &recipe);
  if (!status.ok()) throw Failure(ExitCode::usage, option + ": " + status.message());
  return recipe;
}

// "per_token layout=..." is short for "granularity=per_token layout=...".
Recipe recipe_of(const std::string& text) {
  const std::string first = text.substr(0, text.find(' '));
  const bool has_key = first.find('=') != std::string::npos;
  return parsed("--recipe " + text, has_key ? text : "granularity=" + text);
}

// The values of `words` for a key, read by way of a recipe that may have any of them. Without
// words: what the recipe itself says.
template <class Field>
std::vector<Field> fields(const std::string& option, const std::string& recipe_and_key,
                          const std::vector<std::string>& words, Field Recipe::*field,
                          const Recipe& recipe) {
  if (words.empty()) return {recipe.*field};
  std::vector<Field> values;
  values.reserve(words.size());
  for (const std::string& word : words) {
    values.push_back(parsed(option + " " + word, recipe_and_key + "=" + word).*field);
  }
  return values;
}

}  // namespace

void add_options(CLI::App* command, Options* options) {
  const char* group = "Only with --device cuda";
  command->add_option("--tokens", options->tokens, "rows, such as 1,16,4096")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32))
      ->group(group);
  command
      ->add_option("--model", options->model,
                   "config.json of a model, or its folder: the hidden sizes of what it quantizes")
      ->group(group);
  command
      ->add_option("--recipe", options->recipes,
                   "such as per_token, or \"per_group(128) encoding=ue8m0_packed\"; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  command->add_option("--encoding", options->encodings, "of the scales, for every recipe")
      ->delimiter(',')
      ->group(group);
  command->add_option("--layout", options->layouts, "of the scales, for every recipe")
      ->delimiter(',')
      ->group(group);
  command
      ->add_option("--data", options->patterns,
                   "normal and others, timed beside each other: " + pattern_keys())
      ->delimiter(',')
      ->group(group);
  command
      ->add_flag("--calls", options->host_calls,
                 "time what a call costs the calling thread, instead of the kernels")
      ->group(group);
}

void refuse_options(const CLI::App& command) {
  for (const char* name : kOptionNames) {
    if (command.get_option(name)->count() == 0) continue;
    throw Failure(ExitCode::usage, std::string(name) + ": only with --device cuda");
  }
}

NamedRecipe named(const Recipe& recipe) {
  auto words = words_of(recipe);
  std::string name = words["granularity"];
  const auto add = [&](const char* key, const char* usual) {
    if (words[key] != usual) name += " " + words[key];
  };
  add("format", "e4m3");
  add("source", "dynamic");
  add("encoding", "f32");
  if (recipe.encoding != ScaleEncoding::ue8m0_packed) add("layout", "row_major");
  add("profile", "rowscale");
  return {name, recipe};
}

std::vector<NamedRecipe> chosen_recipes(const Options& options) {
  std::vector<NamedRecipe> chosen;
  for (const std::string& text : options.recipes.empty() ? default_recipes() : options.recipes) {
    const Recipe base = recipe_of(text);
    for (const ScaleEncoding encoding : fields("--encoding", "granularity=per_group(128) encoding",
                                               options.encodings, &Recipe::encoding, base)) {
      for (const ScaleLayout layout : fields("--layout", "granularity=per_block(128,128) layout",
                                             options.layouts, &Recipe::layout, base)) {
        Recipe recipe = base;
        recipe.encoding = encoding;
        recipe.layout = layout;
        const NamedRecipe one = named(recipe);
        if (const Status status = check(recipe); !status.ok()) {
          fmt::print(stderr, "left out: {}: {}\n", one.name, status.message());
          continue;
        }
        // The packed encoding ignores the layout and would come once for each.
        const auto same = [&](const NamedRecipe& other) { return other.name == one.name; };
        if (std::none_of(chosen.begin(), chosen.end(), same)) chosen.push_back(one);
      }
    }
  }
  if (chosen.empty()) throw Failure(ExitCode::usage, "--recipe: none is left to measure");
  return chosen;
}

std::vector<Pattern> chosen_patterns(const Options& options) {
  std::vector<Pattern> patterns = {Pattern::normal};  // what the others are compared with
  for (const std::string& key : options.patterns) {
    const Pattern pattern = parse_pattern(key);
    if (pattern != Pattern::normal) patterns.push_back(pattern);
  }
  return patterns;
}

std::vector<Shape> chosen_shapes(const Options& options) {
  std::vector<int64_t> tokens = options.tokens;
  if (tokens.empty()) tokens = {1, 16, 128, 512, 2048, 4096, 17083, 65536};
  std::vector<ModelShape> rows;
  if (!options.model.empty()) rows = model_shapes(options.model);
  for (const int64_t hidden : options.hidden) rows.push_back({hidden, ""});
  if (rows.empty()) rows.push_back({4096, ""});
  std::vector<Shape> shapes;
  shapes.reserve(rows.size() * tokens.size());
  for (const ModelShape& row : rows) {
    for (const int64_t count : tokens) shapes.push_back({count, row.hidden, row.input_of});
  }
  return shapes;
}

}  // namespace rowscale::cli::gpu
