// The fastest of several ways, by measuring.
#pragma once

#include <memory>
#include <vector>

#include "matmul/backend.hpp"
#include "matmul/problem.hpp"
#include "rowscale/matmul.hpp"
#include "rowscale/status.hpp"

namespace rowscale::product {

// Runs each way on memory of its own; nullptr and *status where that failed. `ways` has at least
// one. A build without CUDA takes the first. Keeps what it found for equal problems.
std::shared_ptr<const Way> fastest(const Problem& problem, const MatmulOptions& options,
                                   const std::vector<std::shared_ptr<const Way>>& ways,
                                   Status* status);

}  // namespace rowscale::product
