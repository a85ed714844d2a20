#include "rowscale/matmul.hpp"

#include <memory>

#include "api/check.hpp"
#include "matmul/cache.hpp"
#include "matmul/plan.hpp"
#include "matmul/problem.hpp"

namespace rowscale {
namespace {

using Plan = std::shared_ptr<const MatmulPlan::Data>;

Status find_plan(const MatmulTensors& tensors, const MatmulOptions& options,
                 product::Problem* problem, Plan* plan) {
  ROWSCALE_RETURN_IF_ERROR(product::make_problem(tensors, options, problem));
  return product::cached_plan(*problem, options, plan);
}

Status run(const MatmulTensors& tensors, const MatmulOptions& options, const Exec& exec) {
  product::Problem problem;
  Plan plan;
  ROWSCALE_RETURN_IF_ERROR(find_plan(tensors, options, &problem, &plan));
  return plan->run(problem, tensors, exec);
}

}  // namespace

Status matmul(const TensorView& a, const TensorView& b, const TensorView& scale_a,
              const TensorView& scale_b, const TensorView& bias, const TensorView& out,
              const MatmulOptions& options, const Exec& exec) {
  if (a.row_counts != nullptr) {
    return api::invalid("a: expected no row_counts but in grouped_matmul, got " + to_string(a));
  }
  return run({a, b, scale_a, scale_b, bias, out, {}}, options, exec);
}

Status grouped_matmul(const TensorView& a, const TensorView& b, const TensorView& scale_a,
                      const TensorView& scale_b, const TensorView& expert_offsets,
                      const TensorView& out, const MatmulOptions& options, const Exec& exec) {
  if (api::is_absent(expert_offsets) && a.row_counts == nullptr) {
    return api::invalid("expert_offsets: expected offsets, or row_counts of a, got neither");
  }
  return run({a, b, scale_a, scale_b, {}, out, expert_offsets}, options, exec);
}

Status matmul_supported(const MatmulTensors& tensors, const MatmulOptions& options) {
  product::Problem problem;
  Plan plan;
  return find_plan(tensors, options, &problem, &plan);
}

size_t matmul_workspace_bytes(const MatmulTensors& tensors, const MatmulOptions& options) {
  product::Problem problem;
  Plan plan;
  return find_plan(tensors, options, &problem, &plan).ok() ? plan->way->workspace_bytes() : 0;
}

}  // namespace rowscale
