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

// Every kernel of this build that quantizes or dequantizes.
std::set<cuda::KernelKey> registered_kernels();

}  // namespace rowscale::test
