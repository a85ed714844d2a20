// The plan of a case and the kernel that it leads to, as the library chooses them and as a failure
// shows them.
#pragma once

#include <set>
#include <string>

#include "cuda/registry.hpp"
#include "plan/gpu_plan.hpp"

namespace rowscale::test {

struct QuantizeCase;
struct DequantizeCase;
struct RequantizeCase;

// What plan_gpu() is asked for a case whose arguments lie as they do in a lane: of the addresses
// only the alignment counts.
plan::GpuProblem problem_of(const QuantizeCase& c);
plan::GpuProblem problem_of(const RequantizeCase& c);

// Or why there is none.
std::string plan_text(const QuantizeCase& c);

// The kernel of a call by a plan, and that of a call which needs none.
cuda::KernelKey key_of(const QuantizeCase& c, const plan::GpuPlan& plan);
cuda::KernelKey key_of(const RequantizeCase& c, const plan::GpuPlan& plan);
cuda::KernelKey key_of(const DequantizeCase& c);

// Whose kernels: of tensors and codes that are given, or of rows that a norm or an activation
// makes.
enum class RowsOf { callers, producers };
// Empty: these are the kernels of the registry but for `besides`, which another test answers for.
// Else those that were never launched, and those that the registry does not have.
std::string difference_from_registry(const std::set<cuda::KernelKey>& launched, RowsOf rows,
                                     const std::set<cuda::Operation>& besides = {});

}  // namespace rowscale::test
