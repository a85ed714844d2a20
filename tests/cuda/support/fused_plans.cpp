#include "tests/cuda/support/fused_plans.hpp"

#include <algorithm>

#include "cuda/operators.hpp"
#include "tests/support/calls.hpp"

namespace rowscale::test {

Status plan_on(const Side& side, const FusedCase& c, const FusedSlots& slots, FusedCall call,
               PlannedFused* planned) {
  const plan::Source source = source_on(side, c, slots);
  if (call == FusedCall::separate) {
    planned->call.source = source;
    planned->call.source.row_out = {};
    return cuda::rows_problem(planned->call.source, side.view(slots.row), &planned->problem);
  }
  planned->call = plan::resolve(source, c.recipe);
  return cuda::quantize_problem(planned->call.source, planned->call.recipe, side.view(slots.codes),
                                side.view(slots.scales), &planned->problem);
}

Status call_by_plan(const Side& side, const PlannedFused& planned, const FusedSlots& slots,
                    FusedCall call, const plan::GpuPlan& plan) {
  const plan::Source& source = planned.call.source;
  if (call == FusedCall::separate) {
    return cuda::store_rows(source, side.view(slots.row), side.exec, plan);
  }
  return cuda::quantize(source, planned.call.recipe, side.view(slots.codes),
                        side.view(slots.scales), side.exec, plan);
}

cuda::KernelKey key_of(const PlannedFused& planned, FusedCall call, const plan::GpuPlan& plan) {
  const plan::Source& source = planned.call.source;
  const bool is_separate = call == FusedCall::separate;
  cuda::KernelKey key;
  key.operation = is_separate ? cuda::Operation::make_rows : cuda::Operation::quantize;
  key.source = source.kind;
  key.input = source.x.dtype;
  key.output = is_separate ? source.x.dtype : code_dtype(planned.call.recipe);
  key.split = plan.split;
  key.access = plan.access;
  key.scales = plan.scales;
  key.lanes = plan.lanes;
  key.chunks = plan.chunks;
  // Both forms of products in fp32 are one kernel.
  if (source.silu != plan::SiluForm::rounded) key.silu = plan::SiluForm::product;
  if (plan.split == plan::GpuSplit::norm) {
    key.threads = plan.threads;
    key.unit = plan.unit;
    key.residual = plan.residual;
  } else if (plan.split == plan::GpuSplit::norm_team) {
    key.rounds = plan::norm_team_rounds(planned.problem.columns);
    key.unit = plan.unit;
  }
  return key;
}

plan::GpuPlan on_few_blocks(plan::GpuPlan plan, int64_t blocks) {
  if (plan.split == plan::GpuSplit::norm_team) plan.blocks = std::min(plan.blocks, blocks);
  return plan;
}

std::string compare_forced(Lane& lane, const FusedCase& c, FusedCall call,
                           const plan::GpuPlan& plan) {
  const FusedSlots slots = reserve(lane, c, call);
  const auto difference = lane.compare({}, 0, [&](const Side& side) -> Status {
    if (!side.is_gpu()) return call_on(side, c, slots, call);
    PlannedFused planned;
    if (Status s = plan_on(side, c, slots, call, &planned); !s.ok()) return s;
    return call_by_plan(side, planned, slots, call, plan);
  });
  return difference ? "  " + to_string(c, call) + "\n    forced: " + plan::to_string(plan) +
                          "\n    " + difference->text
                    : std::string();
}

}  // namespace rowscale::test
