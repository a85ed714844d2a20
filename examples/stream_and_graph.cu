// Quantizes on a GPU the way an inference engine does: in a stream of its own, with memory that was
// allocated beforehand, recorded once as a CUDA graph and replayed for every new input. At the end
// the same call on the CPU shows that each replay gave the same bits.
//
//   nvcc -std=c++20 stream_and_graph.cu -lrowscale
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <rowscale/rowscale.hpp>

namespace {

using rowscale::Device;
using rowscale::DeviceType;
using rowscale::DType;
using rowscale::TensorView;

constexpr int64_t kTokens = 64;
constexpr int64_t kHidden = 4096;
constexpr Device kGpu{DeviceType::cuda, 0};

// Every failure ends the program with its name: rowscale's calls return a Status, CUDA's an error.
bool ok(const rowscale::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "rowscale: %s\n", status.message().c_str());
  return status.ok();
}

bool ok(cudaError_t error) {
  if (error != cudaSuccess)
    std::fprintf(stderr, "CUDA: %s (%s)\n", cudaGetErrorName(error), cudaGetErrorString(error));
  return error == cudaSuccess;
}

// The input of a step: other values each time.
std::vector<float> activations(int step) {
  std::vector<float> x(kTokens * kHidden);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(0.37F * static_cast<float>(i + 1000 * step)) * static_cast<float>(step + 1);
  }
  return x;
}

// Everything on the GPU that the graph refers to. A graph keeps addresses, so this memory stays
// where it is for as long as the graph is replayed; what it holds may change.
struct DeviceMemory {
  float* x = nullptr;         // [kTokens, kHidden]
  uint8_t* codes = nullptr;   // [kTokens, kHidden]
  float* scale = nullptr;     // one for the whole tensor
  void* workspace = nullptr;  // scratch of the call; its content never matters
  size_t workspace_bytes = 0;

  bool allocate(const rowscale::Recipe& recipe) {
    const auto shape =
        TensorView::contiguous(static_cast<void*>(nullptr), DType::f32, {kTokens, kHidden}, kGpu);
    workspace_bytes = rowscale::quantize_workspace_bytes(shape, recipe);
    return ok(cudaMalloc(&x, kTokens * kHidden * sizeof(float))) &&
           ok(cudaMalloc(&codes, kTokens * kHidden)) && ok(cudaMalloc(&scale, sizeof(float))) &&
           ok(cudaMalloc(&workspace, workspace_bytes == 0 ? 1 : workspace_bytes));
  }

  ~DeviceMemory() {
    cudaFree(x);
    cudaFree(codes);
    cudaFree(scale);
    cudaFree(workspace);
  }
};

// [capture]
// Records one call. Nothing runs yet: the stream only writes down what it is asked to do. The call
// allocates nothing and waits for nothing, which is what makes recording possible.
bool record(const DeviceMemory& memory, const rowscale::Recipe& recipe, cudaStream_t stream,
            cudaGraphExec_t* graph) {
  const auto x = TensorView::contiguous(memory.x, DType::f32, {kTokens, kHidden}, kGpu);
  const auto codes = TensorView::contiguous(memory.codes, DType::e4m3, {kTokens, kHidden}, kGpu);
  rowscale::ScaleSpec spec;
  if (!ok(rowscale::scale_spec(codes, recipe, &spec))) return false;

  rowscale::Exec exec;
  exec.stream = stream;
  exec.workspace = {memory.workspace, memory.workspace_bytes};  // one for each concurrent call

  if (!ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal))) return false;
  const bool queued = ok(rowscale::quantize(x, recipe, codes, spec.view(memory.scale, kGpu), exec));
  cudaGraph_t recorded = nullptr;
  const bool ended = ok(cudaStreamEndCapture(stream, &recorded));
  const bool made = queued && ended && ok(cudaGraphInstantiate(graph, recorded, 0));
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  return made;
}
// [/capture]

struct Quantized {
  std::vector<uint8_t> codes = std::vector<uint8_t>(kTokens * kHidden);
  float scale = 0.0F;
};

// [replay]
// New input into the same memory, the graph, the result back: all in one stream, so that each step
// sees the one before it, and the host waits once.
bool replay(const DeviceMemory& memory, cudaGraphExec_t graph, cudaStream_t stream,
            const std::vector<float>& x, Quantized* out) {
  return ok(cudaMemcpyAsync(memory.x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice,
                            stream)) &&
         ok(cudaGraphLaunch(graph, stream)) &&
         ok(cudaMemcpyAsync(out->codes.data(), memory.codes, out->codes.size(),
                            cudaMemcpyDeviceToHost, stream)) &&
         ok(cudaMemcpyAsync(&out->scale, memory.scale, sizeof(float), cudaMemcpyDeviceToHost,
                            stream)) &&
         ok(cudaStreamSynchronize(stream));
}
// [/replay]

// The same call with tensors on the CPU.
bool on_cpu(const std::vector<float>& x, const rowscale::Recipe& recipe, Quantized* out) {
  const auto view = TensorView::contiguous(x.data(), DType::f32, {kTokens, kHidden});
  const auto codes = TensorView::contiguous(out->codes.data(), DType::e4m3, {kTokens, kHidden});
  rowscale::ScaleSpec spec;
  return ok(rowscale::scale_spec(codes, recipe, &spec)) &&
         ok(rowscale::quantize(view, recipe, codes, spec.view(&out->scale)));
}

bool run(cudaStream_t stream, cudaGraphExec_t* graph) {
  // A scale of the whole tensor, computed from it: the recipe that needs a workspace on a GPU.
  const rowscale::Recipe recipe = rowscale::per_tensor();
  DeviceMemory memory;
  if (!memory.allocate(recipe) || !record(memory, recipe, stream, graph)) return false;
  for (int step = 0; step < 3; ++step) {
    const std::vector<float> x = activations(step);
    Quantized gpu;
    Quantized cpu;
    if (!replay(memory, *graph, stream, x, &gpu) || !on_cpu(x, recipe, &cpu)) return false;
    const bool same = gpu.codes == cpu.codes && std::memcmp(&gpu.scale, &cpu.scale, 4) == 0;
    std::printf("step %d: scale %g, %s\n", step, gpu.scale,
                same ? "the bits of the CPU" : "NOT the bits of the CPU");
    if (!same) return false;
  }
  return true;
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  if (!ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking))) return 1;
  cudaGraphExec_t graph = nullptr;
  const bool done = run(stream, &graph);
  if (graph != nullptr) cudaGraphExecDestroy(graph);
  cudaStreamDestroy(stream);
  return done ? 0 : 1;
}
