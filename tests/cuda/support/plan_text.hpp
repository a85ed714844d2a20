// The plan of a case, as the library makes it and as a failure shows it.
#pragma once

#include <string>

#include "plan/gpu_plan.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::test {

struct QuantizeCase;

// What plan_gpu() is asked for a case whose arguments lie as they do in a lane: of the addresses
// only the alignment counts.
plan::GpuProblem problem_of(const QuantizeCase& c);
// The same of codes [rows, columns], contiguous, from `in` to `out`.
plan::GpuProblem problem_of_requantize(const Recipe& in, const Recipe& out, int64_t rows,
                                       int64_t columns);

// Or why there is none.
std::string plan_text(const QuantizeCase& c);

}  // namespace rowscale::test
