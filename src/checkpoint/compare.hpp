// A quantized model against the model it was made from: every weight is computed again, from the
// source, and every other tensor compared byte for byte.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/check.hpp"
#include "checkpoint/layer_error.hpp"
#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

struct Comparison {
  std::vector<Check> checks;       // weights, copies, names
  std::vector<LayerError> layers;  // quantized weights, the lowest signal-to-noise ratio first
};

struct CompareLimits {
  int threads = 1;
  int64_t strip_elements = int64_t{1} << 20;  // of the source in memory, a thread: twice that many
};

// `plan`: what was to be made of `source`. The errors' sums do not depend on the threads.
// Throws Failure(input).
Comparison compare(Model* model, Model* source, const Plan& plan, const CompareLimits& limits);

}  // namespace rowscale::checkpoint
