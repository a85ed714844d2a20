// How a conversion's memory is divided.
#pragma once

#include <cstdint>

#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

struct MemoryBudget {
  int workers = 1;
  int strips = 1;
  int64_t strip_elements = 0;
};

// Throws Failure(usage) where `max_memory` is too little for this model's plan.
MemoryBudget make_budget(const Model& model, const Plan& plan, int threads, int64_t max_memory);

// CPUs that the process may use: affinity, and the quota of its control group.
int usable_threads();

}  // namespace rowscale::checkpoint
