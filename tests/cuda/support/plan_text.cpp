#include "tests/cuda/support/plan_text.hpp"

#include <cstdint>
#include <exception>
#include <stdexcept>

#include "cuda/operators.hpp"
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

plan::GpuProblem ask(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                     const TensorView& scales) {
  plan::GpuProblem problem;
  const Status status = cuda::quantize_problem(source, resolve(recipe), codes, scales, &problem);
  if (!status.ok()) throw std::runtime_error(status.message());
  return problem;
}

}  // namespace

plan::GpuProblem problem_of(const QuantizeCase& c) {
  const TensorView codes = codes_of(c);
  plan::Source source;
  source.x = placed(c.x, c.x_begin + c.shift.x + extent_of(c.x).offset);
  return ask(source, c.recipe, placed(codes, c.shift.codes + extent_of(codes).offset),
             placed_scales(codes, c.recipe, c.shift.scales));
}

plan::GpuProblem problem_of_requantize(const Recipe& in, const Recipe& out, int64_t rows,
                                       int64_t columns) {
  plan::Source source;
  source.kind = plan::SourceKind::dequantized;
  source.x = placed(shape_view(code_dtype(in), {rows, columns}), 0);
  source.scales = placed_scales(source.x, in, 0);
  source.recipe = resolve(in);
  const TensorView codes = shape_view(code_dtype(out), {rows, columns});
  return ask(source, out, placed(codes, 0), placed_scales(codes, out, 0));
}

std::string plan_text(const QuantizeCase& c) {
  try {
    return to_string(plan::plan_gpu(problem_of(c)));
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace rowscale::test
