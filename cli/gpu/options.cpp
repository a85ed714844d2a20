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

std::vector<std::string> recipe_texts(const Options& options) {
  if (!options.recipes.empty()) return options.recipes;
  // Those below say their encodings and layouts themselves.
  if (!options.encodings.empty() || !options.layouts.empty()) return {"per_group(128)"};
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

// "per_token layout=..." is short for "granularity=per_token layout=...".
std::string whole_text(const std::string& text) {
  const std::string first = text.substr(0, text.find(' '));
  return first.find('=') != std::string::npos ? text : "granularity=" + text;
}

void require_recipe(const std::string& option, const std::string& text) {
  Recipe recipe;
  const Status status = parse_recipe(text, &recipe);
  if (!status.ok()) throw Failure(ExitCode::usage, option + ": " + status.message());
}

// Throws where a word is none. Some layouts are of groups only, one is of blocks only.
void require_words(const Options& options) {
  for (const std::string& text : options.recipes) {
    require_recipe("--recipe " + text, whole_text(text));
  }
  for (const std::string& word : options.encodings) {
    require_recipe("--encoding", "granularity=per_group(128) encoding=" + word);
  }
  for (const std::string& word : options.layouts) {
    Recipe recipe;
    const std::string field = " layout=" + word;
    if (!parse_recipe("granularity=per_block(128,128)" + field, &recipe).ok()) {
      require_recipe("--layout", "granularity=per_group(128)" + field);
    }
  }
}

// " key=word" for each word; without words nothing is said of the key.
std::vector<std::string> clauses(const char* key, const std::vector<std::string>& words) {
  if (words.empty()) return {""};
  std::vector<std::string> out;
  out.reserve(words.size());
  for (const std::string& word : words) out.push_back(fmt::format(" {}={}", key, word));
  return out;
}

// The recipe of a text, unless it is none or there already: the packed encoding ignores the layout
// and would come once for each.
void add_recipe(const std::string& text, std::vector<NamedRecipe>* chosen) {
  Recipe recipe;
  if (const Status status = parse_recipe(whole_text(text), &recipe); !status.ok()) {
    fmt::print(stderr, "left out: {}: {}\n", text, status.message());
    return;
  }
  const NamedRecipe one = named(recipe);
  const auto same = [&](const NamedRecipe& other) { return other.name == one.name; };
  if (std::none_of(chosen->begin(), chosen->end(), same)) chosen->push_back(one);
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
    if (words[key] != usual) name.append(" ").append(words[key]);
  };
  add("format", "e4m3");
  add("source", "dynamic");
  add("encoding", "f32");
  if (recipe.encoding != ScaleEncoding::ue8m0_packed) add("layout", "row_major");
  add("profile", "rowscale");
  return {name, recipe};
}

std::vector<NamedRecipe> chosen_recipes(const Options& options) {
  require_words(options);
  std::vector<NamedRecipe> chosen;
  for (const std::string& text : recipe_texts(options)) {
    for (const std::string& encoding : clauses("encoding", options.encodings)) {
      for (const std::string& layout : clauses("layout", options.layouts)) {
        std::string whole = text;
        add_recipe(whole.append(encoding).append(layout), &chosen);
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
