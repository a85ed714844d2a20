#include "tests/cuda/support/plan_text.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "cuda/operators.hpp"
#include "plan/row_view.hpp"
#include "plan/scale_view.hpp"
#include "tests/cuda/support/calls.hpp"
#include "tests/support/calls.hpp"

namespace rowscale::test {
namespace {

// A view at an address with this alignment.
TensorView placed(TensorView view, int64_t shift) {
  view.data = reinterpret_cast<void*>(uintptr_t{1} << 20 | static_cast<uintptr_t>(shift % 256));
  view.device = kGpu;
  return view;
}

TensorView placed_scales(const TensorView& codes, const Recipe& recipe, int64_t shift) {
  return placed(spec_of(codes, recipe).view(static_cast<void*>(nullptr)), shift);
}

TensorView masked(const TensorView& view, const std::vector<int32_t>& counts) {
  return counts.empty() ? view : view.with_row_counts(counts.data());
}

cuda::KernelKey quantize_key(plan::SourceKind source, DType input, const Recipe& out,
                             const plan::GpuPlan& plan) {
  cuda::KernelKey key;
  key.source = source;
  key.input = input;
  key.output = code_dtype(out);
  key.split = plan.split;
  key.access = plan.access;
  key.scales = plan.scales;
  key.lanes = plan.lanes;
  key.chunks = plan.chunks;
  return key;
}

plan::GpuProblem ask(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                     const TensorView& scales) {
  plan::GpuProblem problem;
  const Status status = cuda::quantize_problem(source, resolve(recipe), codes, scales, &problem);
  if (!status.ok()) throw std::runtime_error(status.message());
  return problem;
}

std::string lines_of(const char* what, const std::set<cuda::KernelKey>& keys) {
  if (keys.empty()) return {};
  std::string text = std::to_string(keys.size()) + " " + what + ":";
  for (const cuda::KernelKey& key : keys) text += "\n  " + to_string(key);
  return text + "\n";
}

}  // namespace

plan::GpuProblem problem_of(const QuantizeCase& c) {
  const TensorView codes = codes_of(c);
  plan::Source source;
  source.x = masked(placed(c.x, c.x_begin + c.shift.x + extent_of(c.x).offset), c.counts);
  return ask(source, c.recipe, placed(codes, c.shift.codes + extent_of(codes).offset),
             placed_scales(codes, c.recipe, c.shift.scales));
}

plan::GpuProblem problem_of(const RequantizeCase& c) {
  TensorView in = c.codes;
  in.dtype = code_dtype(c.in);
  const int64_t offset = extent_of(in).offset;
  TensorView out = in;
  if (c.place == Place::apart) out = shape_view(out.dtype, row_shape(in, in.columns()));
  out.dtype = code_dtype(c.out);
  plan::Source source;
  source.kind = plan::SourceKind::dequantized;
  source.x =
      masked(placed(in, c.place == Place::apart ? c.codes_begin + offset : c.shift.codes + offset),
             c.counts);
  source.scales = placed_scales(in, c.in, c.shift.scales);
  source.recipe = resolve(c.in);
  return ask(source, c.out, placed(out, c.shift.codes + (c.place == Place::apart ? 0 : offset)),
             placed_scales(out, c.out, c.shift.scales));
}

std::string plan_text(const QuantizeCase& c) {
  try {
    return to_string(plan::plan_gpu(problem_of(c)));
  } catch (const std::exception& error) {
    return error.what();
  }
}

cuda::KernelKey key_of(const QuantizeCase& c, const plan::GpuPlan& plan) {
  return quantize_key(plan::SourceKind::plain, c.x.dtype, c.recipe, plan);
}

cuda::KernelKey key_of(const RequantizeCase& c, const plan::GpuPlan& plan) {
  return quantize_key(plan::SourceKind::dequantized, code_dtype(c.in), c.out, plan);
}

cuda::KernelKey key_of(const DequantizeCase& c) {
  TensorView codes = c.codes;
  codes.dtype = code_dtype(c.recipe);
  const plan::RowView from(placed(codes, c.codes_begin + extent_of(codes).offset));
  const plan::RowView to(placed(c.y, c.shift.x + extent_of(c.y).offset));
  Recipe recipe = resolve(c.recipe);
  const plan::ScaleGrid grid(recipe, from.rows_per_batch(), from.columns());
  const bool narrow = plan::is_narrow(recipe, grid, from.batches(),
                                      placed_scales(codes, c.recipe, c.shift.scales).data);
  recipe.scale_source = ScaleSource::given;  // every chunk is on its own
  cuda::KernelKey key;
  key.operation = cuda::Operation::dequantize;
  key.source = plan::SourceKind::dequantized;
  key.input = codes.dtype;
  key.output = c.y.dtype;
  key.split = plan::GpuSplit::given;
  key.access = narrow ? plan::access_of(from, to, grid, recipe) : plan::GpuAccess::elements;
  if (key.access == plan::GpuAccess::runs) key.access = plan::GpuAccess::elements;
  key.chunks = plan::kGivenChunks;
  return key;
}

std::string difference_from_registry(const std::set<cuda::KernelKey>& launched, RowsOf rows,
                                     const std::set<cuda::Operation>& besides) {
  std::set<cuda::KernelKey> registered;
  for (const auto& kernels : cuda::kernel_lists()) {
    for (const cuda::Kernel& kernel : kernels) {
      const cuda::KernelKey& key = kernel.key;
      const RowsOf of = plan::is_made(key.source) ? RowsOf::producers : RowsOf::callers;
      if (of == rows && besides.count(key.operation) == 0) registered.insert(key);
    }
  }
  std::set<cuda::KernelKey> missing;
  std::set<cuda::KernelKey> unknown;
  std::set_difference(registered.begin(), registered.end(), launched.begin(), launched.end(),
                      std::inserter(missing, missing.end()));
  std::set_difference(launched.begin(), launched.end(), registered.begin(), registered.end(),
                      std::inserter(unknown, unknown.end()));
  return lines_of("never launched", missing) + lines_of("not in the registry", unknown);
}

}  // namespace rowscale::test
