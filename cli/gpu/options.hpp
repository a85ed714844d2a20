// The options of a benchmark on a GPU, and the recipes that they name.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bench_data.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::cli::gpu {

struct Options {
  std::vector<int64_t> tokens;  // these four: empty for the defaults
  std::vector<int64_t> hidden;
  std::vector<std::string> recipes;
  std::vector<std::string> patterns;
  std::vector<std::string> encodings;  // these two: empty for what the recipes say
  std::vector<std::string> layouts;
  std::vector<DType> dtypes;
  std::string model;  // config.json, or its folder; "": none
  bool host_calls = false;
  int rounds = 15;
  std::string csv;
  std::string svg;
};

// Those of the fields above `dtypes`, and host_calls.
void add_options(CLI::App* command, Options* options);

// Throws Failure(usage) where an option that only the GPU knows was given for the CPU.
void refuse_options(const CLI::App& command);

// A recipe and the name it has in tables.
struct NamedRecipe {
  std::string name;  // "per_group(128) ue8m0_packed"
  Recipe recipe;
};

NamedRecipe named(const Recipe& recipe);

// Every recipe in every encoding and layout that was asked for; those that no recipe can be are
// left out, with a line on stderr. Throws Failure(usage) for words that are none.
std::vector<NamedRecipe> chosen_recipes(const Options& options);

std::vector<Pattern> chosen_patterns(const Options& options);

// Rows and columns of the tensors; a model's are named after what it quantizes.
struct Shape {
  int64_t tokens = 0;
  int64_t hidden = 0;
  std::string input_of;  // "": not of a model
};

std::vector<Shape> chosen_shapes(const Options& options);

}  // namespace rowscale::cli::gpu
