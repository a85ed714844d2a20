#include "gpu/matmul_calls.hpp"

#include <functional>
#include <list>
#include <string>
#include <utility>

#include "failure.hpp"
#include "gpu/ceiling_kernels.hpp"
#include "gpu/host_calls.hpp"
#include "gpu/measure.hpp"

namespace rowscale::cli::gpu {
namespace {

using Call = std::function<void(cudaStream_t)>;

// Kernels and copies that a call puts into a stream.
int launches_of(const Call& call, const Stream& stream) {
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  call(stream.get());
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
  size_t nodes = 0;
  const cudaError_t error = cudaGraphGetNodes(graph, nullptr, &nodes);
  cudaGraphDestroy(graph);
  check(error, "cudaGraphGetNodes");
  return static_cast<int>(nodes);
}

}  // namespace

std::vector<MatmulRow> time_matmul_calls(const MatmulBench& bench, const Gpu& gpu,
                                         const MatmulSample& sample, MatmulCase c,
                                         std::vector<MatmulRefusal>* refusals) {
  c.layer = {"", 4096, 4096};
  c.m = 1;
  const Device device{DeviceType::cuda, gpu.index};
  const MatmulSets sets(gpu, c, sample, nullptr, c.bytes());
  const MatmulTensors tensors = sets.tensors(0);
  const Stream stream;
  std::vector<MatmulRow> rows;
  const auto add = [&](const std::string& name, MatmulRow row, const Call& call) {
    row.part = MatmulPart::calls;
    row.problem = c;
    row.call = name;
    row.work_launches = launches_of(call, stream);
    row.seconds = time_calls(call, stream, bench.rounds);
    row.sets = 1;
    rows.push_back(std::move(row));
  };
  add("a bare launch", {}, [&](cudaStream_t s) {
    check(launch_read(tensors.a.data, c.layer.k, tensors.out.data, s), "launch_read");
  });
  PlannedCase planned = plan_case(c, bench.backends, Tuning::off, device);
  for (BackendRefusal& refusal : planned.refusals) refusals->push_back({c, std::move(refusal)});
  for (PlannedMatmul& one : planned.plans) {
    const RunnableMatmul runnable(std::move(one), bench.dependent_launch);
    const PlannedMatmul& made = runnable.planned();
    if (!runs(rowscale::to_string(made.plan.backend()), runnable.run(tensors, nullptr))) continue;
    MatmulRow row;
    row.backend = made.plan.backend();
    row.algorithm = made.algorithm;
    row.is_chosen = made.is_chosen;
    add("plan.run", row, [&](cudaStream_t s) { require(runnable.run(tensors, s)); });
    if (!made.is_chosen) continue;
    const MatmulOptions options = c.options(MatmulBackend::best, Tuning::off);
    add("matmul()", row, [&](cudaStream_t s) {
      require(matmul(tensors.a, tensors.b, tensors.scale_a, tensors.scale_b, {}, tensors.out,
                     options, runnable.exec(s)));
    });
  }
  return rows;
}

}  // namespace rowscale::cli::gpu
