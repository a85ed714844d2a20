#include "tests/cuda/support/plan_text.hpp"

#include <cstdint>

#include "tests/cuda/support/calls.hpp"
#include "tests/support/calls.hpp"

namespace rowscale::test {
namespace {

int multiprocessors() {
  int count = 1;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, kGpu.index) != cudaSuccess) {
    return 1;
  }
  return count;
}

// Only the alignment of an address counts.
void* at_alignment(int64_t shift) {
  return reinterpret_cast<void*>(uintptr_t{1} << 20 | static_cast<uintptr_t>(shift));
}

}  // namespace

plan::GpuProblem problem_of(const QuantizeCase& c) {
  TensorView x = c.x;
  x.data = at_alignment((c.x_begin + c.shift.x + extent_of(c.x).offset) % 256);
  TensorView codes = codes_of(c);
  codes.data = at_alignment((c.shift.codes + extent_of(codes).offset) % 256);
  const plan::RowView from(x);
  const plan::RowView to(codes);
  const Recipe recipe = resolve(c.recipe);
  const plan::ScaleGrid grid(recipe, from.rows_per_batch(), from.columns());
  return {recipe,           grid,        plan::access_of(from, to, grid, recipe),
          from.batches(),   from.rows(), from.columns(),
          multiprocessors()};
}

std::string plan_text(const QuantizeCase& c) {
  return to_string(plan::plan_gpu(problem_of(c)));
}

}  // namespace rowscale::test
