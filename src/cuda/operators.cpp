#include "cuda/operators.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/call_parts.hpp"
#include "cuda/context.hpp"
#include "cuda/devices.hpp"
#include "cuda/registry.hpp"

namespace rowscale::cuda {

Launch launch_of(const Exec& exec, const DeviceFacts& facts, int64_t blocks, int threads) {
  // Code for older architectures does not wait for the kernel before it.
  const bool waits = facts.code_version >= 90;
  return {blocks, threads, static_cast<cudaStream_t>(exec.stream),
          waits ? exec.dependent_launch : DependentLaunch::off,
          waits ? DependentLaunch::on : DependentLaunch::off};
}

namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

KernelKey key_of(const QuantizeCall& call, Operation operation, const plan::GpuPlan& plan) {
  KernelKey key;
  key.operation = operation;
  key.source = call.source.kind;
  key.input = call.source.x.dtype;
  key.output = call.codes.dtype();
  key.split = plan.split;
  key.access = plan.access;
  key.scales = plan.scales;
  key.lanes = plan.lanes;
  key.chunks = plan.chunks;
  if (call.source.silu != plan::SiluForm::rounded) key.silu = plan::SiluForm::product;
  if (plan.split == plan::GpuSplit::norm) {
    key.threads = plan.threads;
    key.unit = plan.unit;
    key.residual = plan.residual;
  } else if (plan.split == plan::GpuSplit::norm_team) {
    key.rounds = plan::norm_team_rounds(call.codes.columns());
    key.unit = plan.unit;
  }
  return key;
}

Status run(const QuantizeCall& call, Operation operation, const plan::GpuPlan& plan,
           const Exec& exec) {
  if (plan.blocks == 0) return {};
  return start_kernel(key_of(call, operation, plan), call.source.x.device.index,
                      [&](const Kernel& kernel, const DeviceFacts& facts) {
                        return kernel.quantize(call,
                                               launch_of(exec, facts, plan.blocks, plan.threads));
                      });
}

// Of the tensors that a source's kernels read and write chunk by chunk.
plan::GpuAccess access_of(const plan::Source& source, const plan::RowView& to,
                          const plan::ScaleGrid& grid, const Recipe& recipe) {
  for (const TensorView& tensor : {source.row_out, source.norm.residual}) {
    if (tensor.data != nullptr && !plan::lies_in_chunks(plan::RowView(tensor))) {
      return plan::GpuAccess::elements;
    }
  }
  return plan::access_of(plan::RowView(source.x), to, grid, recipe);
}

plan::NormWeights weights_of(const plan::Source& source) {
  if (source.kind != plan::SourceKind::rms_norm) return plan::NormWeights::any;
  const TensorView& weight = source.norm.weight;
  const bool is_aligned = reinterpret_cast<uintptr_t>(weight.data) % 16 == 0;
  return weight.dtype == source.x.dtype && is_aligned ? plan::NormWeights::words
                                                      : plan::NormWeights::any;
}

// Scales of a row or of less.
bool is_of_rows(const Recipe& recipe) {
  return recipe.granularity == Granularity::per_token ||
         recipe.granularity == Granularity::per_channel ||
         recipe.granularity == Granularity::per_group;
}

// Rows of all batches as those of one where neither masks nor the places of scales tell them apart.
plan::RowView rows_of(const TensorView& tensor) {
  const plan::RowView rows(tensor);
  return rows.is_masked() ? rows : rows.as_one_batch();
}
plan::RowView rows_of(const TensorView& tensor, const Recipe& recipe, const TensorView& x) {
  const bool is_apart = recipe.layout != ScaleLayout::row_major ||
                        recipe.encoding == ScaleEncoding::ue8m0_packed ||
                        plan::RowView(x).is_masked();
  const plan::RowView rows(tensor);
  return is_of_rows(recipe) && !is_apart ? rows.as_one_batch() : rows;
}

// What a problem says of a source and its rows, whatever becomes of them.
Status problem_of(const plan::Source& source, const plan::RowView& x, const plan::RowView& to,
                  plan::GpuProblem* problem) {
  DeviceFacts facts;
  if (Status s = find_device(source.x.device.index, &facts); !s.ok()) return s;
  problem->source = source.kind;
  problem->element_bytes = x.element_bytes();
  problem->batches = x.batches();
  problem->rows = x.rows();
  problem->columns = to.columns();
  problem->masks = x.is_masked() ? plan::RowMasks::counted : plan::RowMasks::none;
  problem->weights = weights_of(source);
  problem->residual =
      source.norm.residual.data == nullptr ? plan::NormResidual::none : plan::NormResidual::added;
  problem->residual_sum = source.residual_sum;
  problem->multiprocessors = facts.multiprocessors;
  problem->l2_bytes = facts.l2_bytes;
  constexpr int kBulkCopies = 90;  // the first architecture that has them
  problem->shared_bytes = facts.code_version >= kBulkCopies ? facts.shared_bytes : 0;
  return {};
}

bool is_dynamic_tensor(const Recipe& recipe) {
  return recipe.granularity == Granularity::per_tensor &&
         recipe.scale_source == ScaleSource::dynamic;
}

Status check_workspace(const Recipe& recipe, const Exec& exec) {
  const size_t needed = workspace_bytes(recipe);
  if (needed == 0) return {};
  if (exec.workspace.data == nullptr || exec.workspace.bytes < needed) {
    return {StatusCode::invalid_argument,
            fmt::format("exec.workspace: expected {} bytes, got {}", needed,
                        exec.workspace.data == nullptr ? 0 : exec.workspace.bytes)};
  }
  if (reinterpret_cast<uintptr_t>(exec.workspace.data) % alignof(float) != 0) {
    return {StatusCode::invalid_argument,
            "exec.workspace: expected an address that is a multiple of 4"};
  }
  return {};
}

}  // namespace

size_t workspace_bytes(const Recipe& recipe) {
  return is_dynamic_tensor(recipe) ? size_t{plan::kMostPartials} * sizeof(float) : 0;
}

Status quantize_problem(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                        const TensorView& scales, plan::GpuProblem* problem) {
  const plan::RowView x = rows_of(source.x, recipe, source.x);
  const plan::RowView to(codes);
  if (Status s = problem_of(source, x, to, problem); !s.ok()) return s;
  problem->recipe = recipe;
  problem->grid = plan::ScaleGrid(recipe, x.rows_per_batch(), to.columns());
  problem->access = access_of(source, to, problem->grid, recipe);
  if (!plan::is_narrow(recipe, problem->grid, x.batches(), scales.data)) {
    problem->access = plan::GpuAccess::elements;
  }
  if (source.kind == plan::SourceKind::dequantized) {
    const plan::RowView from(source.x);
    const plan::ScaleGrid grid(source.recipe, from.rows_per_batch(), from.columns());
    if (!plan::is_narrow(source.recipe, grid, from.batches(), source.scales.data)) {
      problem->access = plan::GpuAccess::elements;
    }
  }
  const bool takes_short_ways =
      source.silu == plan::SiluForm::rounded &&
      plan::has_short_ways(source.kind, x.element_bytes(), recipe.format) &&
      problem->access != plan::GpuAccess::elements && x.batches() == 1 && !x.is_masked();
  problem->scales = takes_short_ways ? plan::scales_of(recipe) : plan::GpuScales::general;
  if (problem->access == plan::GpuAccess::runs &&
      (!is_of_rows(recipe) || problem->scales == plan::GpuScales::general ||
       !plan::has_runs(source.kind, x.element_bytes(), recipe.format))) {
    problem->access = plan::GpuAccess::elements;
    problem->scales = plan::GpuScales::general;
  }
  return {};
}

Status rows_problem(const plan::Source& source, const TensorView& y, plan::GpuProblem* problem) {
  const plan::RowView to(y);
  if (Status s = problem_of(source, rows_of(source.x), to, problem); !s.ok()) return s;
  problem->sink = plan::GpuSink::rows;
  // No units: as where scales are given.
  problem->recipe.scale_source = ScaleSource::given;
  plan::Source stored = source;
  stored.row_out = y;
  problem->access = access_of(stored, to, problem->grid, problem->recipe);
  if (problem->access == plan::GpuAccess::runs) problem->access = plan::GpuAccess::elements;
  return {};
}

QuantizeCall quantize_call(const plan::Source& source, const Recipe& recipe,
                           const TensorView& codes, const TensorView& scales,
                           const plan::GpuPlan& plan) {
  QuantizeCall call;
  call.loads = plan.loads;
  call.units = plan.units;
  call.teams = plan.teams;
  call.depth = plan.depth;
  call.source = source;
  call.recipe = recipe;
  call.x = rows_of(source.x, recipe, source.x);
  call.codes = rows_of(codes, recipe, source.x);
  call.grid = plan::ScaleGrid(recipe, call.x.rows_per_batch(), call.codes.columns());
  call.scales = scales.data;
  return call;
}

QuantizeCall rows_call(const plan::Source& source, const TensorView& y, const plan::GpuPlan& plan) {
  QuantizeCall call;
  call.loads = plan.loads;
  call.source = source;
  call.source.row_out = y;
  call.x = rows_of(source.x);
  call.codes = plan::RowView(y);
  return call;
}

Status quantize(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                const TensorView& scales, const Exec& exec) {
  plan::GpuProblem problem;
  if (Status s = quantize_problem(source, recipe, codes, scales, &problem); !s.ok()) return s;
  return quantize(source, recipe, codes, scales, exec, plan::plan_gpu(problem));
}

Status quantize(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                const TensorView& scales, const Exec& exec, const plan::GpuPlan& plan) {
  if (Status s = check_workspace(recipe, exec); !s.ok()) return s;
  QuantizeCall call = quantize_call(source, recipe, codes, scales, plan);
  if (is_dynamic_tensor(recipe)) {
    call.partials = static_cast<float*>(exec.workspace.data);
    call.partial_count = plan.partials;
  }
  return run(call, Operation::quantize, plan, exec);
}

Status store_rows(const plan::Source& source, const TensorView& y, const Exec& exec) {
  plan::GpuProblem problem;
  if (Status s = rows_problem(source, y, &problem); !s.ok()) return s;
  return store_rows(source, y, exec, plan::plan_gpu(problem));
}

Status store_rows(const plan::Source& source, const TensorView& y, const Exec& exec,
                  const plan::GpuPlan& plan) {
  return run(rows_call(source, y, plan), Operation::make_rows, plan, exec);
}

Status dequantize(const TensorView& codes, const TensorView& scales, const Recipe& recipe,
                  const TensorView& y, const Exec& exec) {
  DequantizeCall call;
  call.source.kind = plan::SourceKind::dequantized;
  call.source.x = codes;
  call.source.scales = scales;
  call.source.recipe = recipe;
  call.codes = plan::RowView(codes);
  call.y = plan::RowView(y);
  const int64_t chunks = call.codes.rows() * ceil_div(call.codes.columns(), plan::kChunk);
  if (chunks == 0) return {};

  // Every chunk is on its own, whatever the units.
  Recipe elementwise = recipe;
  elementwise.scale_source = ScaleSource::given;
  const plan::ScaleGrid grid(recipe, call.codes.rows_per_batch(), call.codes.columns());
  KernelKey key;
  key.operation = Operation::dequantize;
  key.source = plan::SourceKind::dequantized;
  key.input = codes.dtype;
  key.output = y.dtype;
  key.split = plan::GpuSplit::given;
  key.access = plan::is_narrow(recipe, grid, call.codes.batches(), scales.data)
                   ? plan::access_of(call.codes, call.y, grid, elementwise)
                   : plan::GpuAccess::elements;
  if (key.access == plan::GpuAccess::runs) key.access = plan::GpuAccess::elements;
  key.chunks = plan::kGivenChunks;
  const int64_t blocks = ceil_div(chunks, int64_t{plan::kGivenChunks} * plan::kGivenThreads);
  return start_kernel(key, codes.device.index, [&](const Kernel& kernel, const DeviceFacts& facts) {
    return kernel.dequantize(call, launch_of(exec, facts, blocks, plan::kGivenThreads));
  });
}

Status relayout_scales(const TensorView& codes, const TensorView& scales_in,
                       const Recipe& recipe_in, const TensorView& scales_out,
                       const Recipe& recipe_out, const Exec& exec) {
  RelayoutCall call;
  call.codes = plan::RowView(codes);
  const int64_t rows = call.codes.rows_per_batch();
  call.grid = plan::ScaleGrid(recipe_in, rows, call.codes.columns());
  call.from = plan::ScaleView(recipe_in, call.grid, scales_in.data);
  call.to = plan::ScaleView(recipe_out, call.grid, scales_out.data);
  const int64_t batches = call.grid.one_for_all ? 1 : call.codes.batches();
  call.scales = batches * call.grid.rows * call.grid.columns;
  if (call.scales == 0) return {};
  DeviceFacts facts;
  if (Status s = find_device(scales_in.device.index, &facts); !s.ok()) return s;
  const ScopedDevice device(scales_in.device.index);
  if (!device.status().ok()) return device.status();
  const cudaError_t error = launch_relayout(call, launch_of(exec, facts, 0, 0));
  return status_of(error, "rowscale::cuda::relayout_scales");
}

}  // namespace rowscale::cuda
