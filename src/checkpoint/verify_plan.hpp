// A converted model's configuration and the places of its tensors against what the plan gives.
#pragma once

#include "checkpoint/check.hpp"
#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

// `plan`: what was to be made of `source`.
Check verify_plan(const Model& result, const Model& source, const Plan& plan);

}  // namespace rowscale::checkpoint
