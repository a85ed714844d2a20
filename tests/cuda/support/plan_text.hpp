// The plan of a case, as a failure shows it.
#pragma once

#include <string>
#include <vector>

#include "plan/gpu_plan.hpp"

namespace rowscale::test {

struct QuantizeCase;

// What plan_gpu() is asked for a case at the addresses that both of its tensors have here; the
// alignment of its memory is that of the lane.
plan::GpuProblem problem_of(const QuantizeCase& c);
std::string plan_text(const QuantizeCase& c);

}  // namespace rowscale::test
