// What a plan holds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "matmul/backend.hpp"
#include "matmul/problem.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/matmul.hpp"

namespace rowscale {

class __attribute__((visibility("hidden"))) MatmulPlan::Data {
 public:
  product::Problem problem;
  MatmulOptions options;
  MatmulBackend backend = MatmulBackend::best;  // never best in a made plan
  std::vector<MatmulVerdict> verdicts;
  std::shared_ptr<const product::Way> way;

  // unsupported: with the reason of each backend that was asked.
  static Status make(const product::Problem& problem, const MatmulOptions& options,
                     std::shared_ptr<const Data>* data);

  // `now`: the problem of these tensors.
  [[nodiscard]] Status run(const product::Problem& now, const MatmulTensors& tensors,
                           const Exec& exec) const;
};

}  // namespace rowscale
