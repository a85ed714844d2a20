// How a conversion's memory is divided.
#pragma once

#include <cstdint>

#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

struct MemoryBudget {
  int workers = 1;
  int strips = 1;
  int64_t strip_elements = 0;
  int64_t least_bytes = 0;  // the smallest limit, in whole MiB, under which this model's plan fits
};

// Of `max_memory` bytes. Where they are fewer than `least_bytes`, which the caller refuses in the
// words of its user, nothing else of the result counts.
MemoryBudget make_budget(const Model& model, const Plan& plan, int threads, int64_t max_memory);

// CPUs that the process may use: affinity, and the quota of its control group.
int usable_threads();

}  // namespace rowscale::checkpoint
