// Latent attention's rows: a plan for each part, one kernel for both.
#include <algorithm>

#include "cuda/call_parts.hpp"
#include "plan/mla.hpp"

namespace rowscale::cuda {
namespace {

struct Problems {
  plan::GpuProblem q;
  plan::GpuProblem kv;
};

Status problems_of(const plan::Mla& mla, Problems* problems) {
  const MlaOutputs& out = mla.outputs;
  Status status =
      quantize_problem(mla.q_source(), mla.q_recipe, out.q_codes, out.q_scales, &problems->q);
  if (!status.ok()) return status;
  problems->q.shared_bytes = 0;  // a part is one of the blocks of another kernel: no teams
  return mla.has_kv_codes() ? quantize_problem(mla.kv_source(), mla.kv_recipe, out.kv_codes,
                                               out.kv_scales, &problems->kv)
                            : rows_problem(mla.kv_source(), out.kv, &problems->kv);
}

bool rope_lies_in_chunks(const plan::Mla& mla) {
  if (!mla.has_rope()) return true;
  return mla.rope_width() % plan::kChunk == 0 && mla.rope_width() <= plan::kMostColumns &&
         plan::lies_in_chunks(plan::RowView(mla.rope_source().x)) &&
         plan::lies_in_chunks(plan::RowView(mla.outputs.rope));
}

// Rows in registers: what most models have. Everything else by the kernel for any.
bool fits_registers(const Problems& problems, const plan::GpuPlan& q_plan) {
  const auto is_short = [](const plan::GpuProblem& problem, const plan::GpuPlan& plan) {
    constexpr int64_t kMost =
        int64_t{plan::kMlaShape.threads} * plan::kMlaShape.chunks * plan::kChunk;
    return plan.split == plan::GpuSplit::norm && problem.columns <= kMost;
  };
  return problems.kv.sink == plan::GpuSink::rows && is_short(problems.q, q_plan) &&
         is_short(problems.kv, plan::plan_gpu(problems.kv));
}

MlaCall call_of(const plan::Mla& mla, const Problems& problems) {
  const MlaOutputs& out = mla.outputs;
  plan::GpuPlan plan;  // loads and units alone are looked at
  MlaCall call;
  call.q = quantize_call(mla.q_source(), mla.q_recipe, out.q_codes, out.q_scales, plan);
  call.kv = problems.kv.sink == plan::GpuSink::codes
                ? quantize_call(mla.kv_source(), mla.kv_recipe, out.kv_codes, out.kv_scales, plan)
                : rows_call(mla.kv_source(), out.kv, plan);
  if (mla.has_rope()) {
    call.rope = {plan::RowView(mla.rope_source().x), plan::RowView(out.rope), mla.rope_width()};
  }
  return call;
}

}  // namespace

Status mla_norm_quantize(const plan::Mla& mla, const Exec& exec) {
  Problems problems;
  if (Status s = problems_of(mla, &problems); !s.ok()) return s;
  const int64_t rows = problems.q.rows;
  if (rows == 0) return {};

  KernelKey key;
  key.operation = Operation::mla;
  key.source = plan::SourceKind::rms_norm;
  key.input = mla.x.dtype;
  key.chunks = 0;
  const bool is_vectors = problems.q.access == plan::GpuAccess::vectors &&
                          problems.kv.access == plan::GpuAccess::vectors &&
                          rope_lies_in_chunks(mla) && 2 * rows <= plan::kMostPositions;
  key.access = is_vectors ? plan::GpuAccess::vectors : plan::GpuAccess::elements;
  key.split = plan::GpuSplit::norm_any;
  int64_t blocks = 2 * rows;
  int threads = plan::kNormAnyThreads;
  const plan::GpuPlan q_plan = plan::plan_gpu(problems.q);
  if (is_vectors && fits_registers(problems, q_plan)) {
    key.split = plan::GpuSplit::norm;
    key.scales = q_plan.scales;
    key.unit = q_plan.unit;
    key.threads = plan::kMlaShape.threads;
    key.chunks = plan::kMlaShape.chunks;
    threads = plan::kMlaShape.threads;
    const int64_t resident = int64_t{problems.q.multiprocessors} *
                             plan::resident_blocks(plan::kMlaShape, plan::NormResidual::none);
    blocks = std::min(blocks, resident);
  }

  return start_kernel(key, mla.x.device.index, [&](const Kernel& kernel, const DeviceFacts& facts) {
    return kernel.mla(call_of(mla, problems), launch_of(exec, facts, blocks, threads));
  });
}

}  // namespace rowscale::cuda
