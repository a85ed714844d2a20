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

// `plan`: what was to be made of `source`. `threads`: 0 for as many as the process may use. The
// resident set stays below `max_memory` bytes, as in a conversion. Throws Failure: unreadable
// (either model), data (a number of the source's), usage (more tensors than `max_memory` can list).
Comparison compare(Model* model, Model* source, const Plan& plan, int threads, int64_t max_memory);

}  // namespace rowscale::checkpoint
