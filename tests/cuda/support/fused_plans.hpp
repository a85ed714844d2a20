// Norms and activations by a plan of one's own: what the library asks a plan for, and the kernel
// that a plan leads to.
#pragma once

#include <string>

#include "cuda/registry.hpp"
#include "plan/fused_call.hpp"
#include "plan/gpu_plan.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/lane.hpp"

namespace rowscale::test {

struct PlannedFused {
  plan::FusedCall call;  // the recipe: of a fused call
  plan::GpuProblem problem;
};
// Of a fused or a separate call on the GPU, its arguments where they lie.
Status plan_on(const Side& side, const FusedCase& c, const FusedSlots& slots, FusedCall call,
               PlannedFused* planned);
Status call_by_plan(const Side& side, const PlannedFused& planned, const FusedSlots& slots,
                    FusedCall call, const plan::GpuPlan& plan);
cuda::KernelKey key_of(const PlannedFused& planned, FusedCall call, const plan::GpuPlan& plan);

// A norm by teams on this many blocks at most, so that few rows go round the rings of a team. Other
// plans as they are.
plan::GpuPlan on_few_blocks(plan::GpuPlan plan, int64_t blocks);

// Empty: the GPU by this plan gives the CPU's bytes.
std::string compare_forced(Lane& lane, const FusedCase& c, FusedCall call,
                           const plan::GpuPlan& plan);

}  // namespace rowscale::test
