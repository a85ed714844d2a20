// What every way to a product answers. One file of functions a backend: matmul/cpu.cpp,
// cuda/matmul/*.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "matmul/problem.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/matmul.hpp"

namespace rowscale::product {

// A problem as one backend will run it. Immutable: concurrent calls share it.
class Way {
 public:
  Way() = default;
  virtual ~Way() = default;
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;

  // The algorithm, for a plan's text and for comparison: equal texts run alike. Names the file and
  // the version of a library where one is used.
  [[nodiscard]] virtual std::string text() const = 0;
  [[nodiscard]] virtual size_t workspace_bytes() const { return 0; }
  // Tensors fit the problem; the workspace is large enough and aligned to 256 bytes; m, n > 0.
  [[nodiscard]] virtual Status run(const MatmulTensors& tensors, const Exec& exec) const = 0;
};

// The ways of one backend to a problem, its own favourite first; more than one only where
// options.tuning asks for candidates. Or, in one phrase, why it takes no such problem: "k: a
// multiple of 16, got 17".
struct Answer {
  std::vector<std::shared_ptr<const Way>> ways;
  std::string refusal;
  static Answer refused(std::string why) { return {{}, std::move(why)}; }
  static Answer one(std::shared_ptr<const Way> way) { return {{std::move(way)}, {}}; }
};

using Ask = Answer (*)(const Problem& problem, const MatmulOptions& options);

Answer ask_cpu(const Problem& problem, const MatmulOptions& options);         // matmul/cpu.cpp
Answer ask_cublaslt(const Problem& problem, const MatmulOptions& options);    // cuda/matmul/
Answer ask_split(const Problem& problem, const MatmulOptions& options);       // cuda/matmul/
Answer ask_small_m(const Problem& problem, const MatmulOptions& options);     // cuda/matmul/
Answer ask_general(const Problem& problem, const MatmulOptions& options);     // cuda/matmul/
Answer ask_dequantize(const Problem& problem, const MatmulOptions& options);  // cuda/matmul/

}  // namespace rowscale::product
