#include "gpu/matmul_sets.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace rowscale::cli::gpu {
namespace {

constexpr int64_t kSampleBytes = int64_t{16} << 20;
constexpr int kFewestLaunches = 20;

Repetition repetition_of(const Gpu& gpu, double bytes) {
  Repetition repeated = repetition(gpu, static_cast<int64_t>(bytes));
  repeated.launches = std::max(repeated.launches, kFewestLaunches);
  return repeated;
}

int64_t elements(const TensorView& view) {
  return view.rows() * view.columns();
}

int64_t bytes_of(const ScaleSpec& spec) {
  return spec.allocation * element_size(spec.dtype);
}

// Offsets or counts; nothing of a case without experts.
DeviceBuffer rows_on_device(const MatmulCase& c, const Routing* routing) {
  if (routing == nullptr) return DeviceBuffer(0);
  const std::vector<int32_t>& values =
      c.rows == ExpertRows::sorted ? routing->offsets : routing->counts;
  const size_t bytes = values.size() * sizeof(int32_t);
  DeviceBuffer buffer(static_cast<int64_t>(bytes));
  check(cudaMemcpy(buffer.data(), values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  // A copy from pageable memory may still be on its way, and other streams do not wait for it.
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return buffer;
}

}  // namespace

MatmulSample::MatmulSample()
    : codes(kSampleBytes), scales(kSampleBytes / 16), floats(kSampleBytes) {
  fill_codes(codes);
  fill_scales(scales);
  fill(floats, DType::bf16, Pattern::normal);
}

MatmulSets::MatmulSets(const Gpu& gpu, const MatmulCase& c, const MatmulSample& sample,
                       const Routing* routing, double bytes)
    : case_(c),
      shapes_(c.shapes({DeviceType::cuda, gpu.index})),
      repetition_(repetition_of(gpu, bytes)),
      a_(repetition_.sets, elements(shapes_.a)),
      b_(repetition_.sets, elements(shapes_.b)),
      scale_a_(repetition_.sets, bytes_of(c.scale_a())),
      scale_b_(repetition_.sets, bytes_of(c.scale_b())),
      out_(repetition_.sets, elements(shapes_.out) * element_size(c.out)),
      rows_(rows_on_device(c, routing)) {
  a_.buffer().tile(sample.codes);
  b_.buffer().tile(sample.codes);
  scale_a_.buffer().tile(sample.scales);
  scale_b_.buffer().tile(sample.scales);
}

MatmulTensors MatmulSets::tensors(int set) const {
  MatmulTensors t = shapes_;
  t.a.data = a_.data(set);
  t.b.data = b_.data(set);
  t.scale_a.data = scale_a_.data(set);
  t.scale_b.data = scale_b_.data(set);
  t.out.data = out_.data(set);
  if (case_.rows == ExpertRows::masked) {
    t.a = t.a.with_row_counts(reinterpret_cast<const int32_t*>(rows_.data()));
  }
  if (case_.rows == ExpertRows::sorted) {
    t.expert_offsets = TensorView::contiguous(rows_.data(), DType::i32, {case_.layer.experts + 1},
                                              shapes_.a.device);
  }
  return t;
}

RunnableMatmul::RunnableMatmul(PlannedMatmul planned, DependentLaunch dependent)
    : planned_(std::move(planned)), dependent_(dependent) {
  if (const size_t needed = planned_.plan.workspace_bytes(); needed > 0) {
    workspace_.emplace(static_cast<int64_t>(needed));
  }
}

Exec RunnableMatmul::exec(cudaStream_t stream) const {
  Exec exec;
  exec.stream = stream;
  exec.dependent_launch = dependent_;
  if (workspace_) {
    exec.workspace = {workspace_->data(), static_cast<size_t>(workspace_->bytes())};
  }
  return exec;
}

Status RunnableMatmul::run(const MatmulTensors& tensors, cudaStream_t stream) const {
  return planned_.plan.run(tensors, exec(stream));
}

}  // namespace rowscale::cli::gpu
