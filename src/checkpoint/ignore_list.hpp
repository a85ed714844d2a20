// The list `ignore` of an output's configuration: what stays as it is, by the names of modules.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model.hpp"
#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

// Sorted. Of every linear layer that is left alone, and of what readers take for one: experts by
// the names that they have one by one, the head of a tied model, which has no tensor.
std::vector<std::string> ignore_list(const Model& model, const Plan& plan);

}  // namespace rowscale::checkpoint
