// The options that all benchmarks share, and what follows from them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bench_data.hpp"
#include "machine.hpp"
#include "rowscale/rowscale.hpp"

namespace rowscale::cli {

struct BenchOptions {
  int64_t mib = 256;
  std::vector<int> threads = {1};
  std::string target = "best";
  std::string dtype = "bf16";
  int64_t hidden = 4096;
  int rounds = 7;
  std::string csv;
  std::string svg;
};

void add_bench_options(CLI::App* command, BenchOptions* options);

// A tensor of floats, [rows, hidden], and how to work on it.
struct Problem {
  Machine machine;
  DType dtype = DType::bf16;
  int64_t rows = 0;
  int64_t hidden = 0;
  std::vector<int> threads;
  std::vector<Target> targets;
  int rounds = 0;

  [[nodiscard]] int64_t elements() const { return rows * hidden; }
  [[nodiscard]] int64_t float_bytes() const { return elements() * element_size(dtype); }
  [[nodiscard]] TensorView floats(const Buffer& buffer) const;
  [[nodiscard]] TensorView codes(const Buffer& buffer) const;
};

Problem make_problem(const BenchOptions& options);

// A recipe under measurement, with its scales.
struct BenchCase {
  std::string name;
  Recipe recipe;
  int passes;  // how often quantize has to read its input from memory
  ScaleSpec spec;
  Buffer scales;

  BenchCase(const Problem& problem, std::string name, const Recipe& recipe, int passes = 1);
  [[nodiscard]] TensorView scale_view() const { return spec.view(scales.data()); }
};

std::vector<BenchCase> bench_cases(const Problem& problem);

}  // namespace rowscale::cli
