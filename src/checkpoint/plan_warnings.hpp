// What a plan allows but its user should know.
#pragma once

#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

void add_warnings(const Model& model, Plan* plan);

}  // namespace rowscale::checkpoint
