// The options of `bench matmul`, resolved.
#pragma once

#include <string>
#include <vector>

#include "matmul_cases.hpp"
#include "matmul_report.hpp"

namespace rowscale::cli {

struct MatmulBench {
  std::vector<LinearShape> layers;
  std::vector<int64_t> m;       // ascending
  std::vector<int64_t> tokens;  // of experts
  std::vector<MatmulScales> scales;
  std::vector<DType> outs;
  std::vector<Accumulation> accumulations;
  std::vector<MatmulBackend> backends;  // asked in this order; best: what a plan takes
  Tuning tuning = Tuning::off;          // of best
  std::vector<MatmulPart> parts;
  DependentLaunch dependent_launch = DependentLaunch::off;
  int threads = 1;  // of a CPU
  int rounds = 0;
  std::string csv;
  std::string svg;

  [[nodiscard]] bool has(MatmulPart part) const;
  // Every choice of scales, accumulation and output, of one layer; m and rows are the caller's.
  [[nodiscard]] std::vector<MatmulCase> cases_of(const LinearShape& layer) const;
  // One product over `tokens` tokens of a layer with experts.
  static MatmulCase grouped(MatmulCase c, ExpertRows rows, int64_t tokens, const Routing& routing);
  void write(const MatmulReport& report) const;
};

}  // namespace rowscale::cli
