// The options that all benchmarks share, and what follows from them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bench_data.hpp"
#include "gpu/options.hpp"
#include "machine.hpp"
#include "rowscale/rowscale.hpp"

namespace rowscale::cli {

struct BenchOptions {
  int64_t mib = 256;
  std::vector<int> threads = {1};
  std::string target = "best";
  std::vector<std::string> dtypes = {"bf16"};
  std::vector<int64_t> hidden;  // empty: 4096
  std::string device = "cpu";
  int rounds = 0;  // 0: 7 on the CPU, 15 on a GPU
  std::string csv;
  std::string svg;
  gpu::Options gpu;
};

void add_bench_options(CLI::App* command, BenchOptions* options);

// The options of a run on a GPU, those that it shares with the CPU included. Throws
// Failure(unsupported) in a build without CUDA kernels, then Failure(usage) where an option was
// given that only the CPU knows, then Failure(output) where a file cannot be written.
gpu::Options gpu_options(const CLI::App& command, const BenchOptions& options);

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

// Throws Failure(usage) where an option was given that only a GPU knows, or several values where
// there can be one; Failure(output) where a file cannot be written.
// `hidden` of the options is multiplied by `inputs`: a gated activation reads two elements for one.
Problem make_problem(const CLI::App& command, const BenchOptions& options, int64_t inputs = 1);

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
