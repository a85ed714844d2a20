// The plans of matmul() and grouped_matmul(), kept for the process.
#pragma once

#include <memory>

#include "matmul/plan.hpp"

namespace rowscale::product {

inline constexpr int kCachedPlans = 256;

// A plan for an equal problem and equal options, the kept one where there is one. Thread-safe; a
// hit allocates nothing and makes its plan the last to be dropped.
Status cached_plan(const Problem& problem, const MatmulOptions& options,
                   std::shared_ptr<const MatmulPlan::Data>* data);

}  // namespace rowscale::product
