#include "checkpoint/cuda_strip_device.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <string>
#include <vector>

#include "checkpoint/failure.hpp"

namespace rowscale::checkpoint {
namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // taken note of: not to be found by the next call
  throw Failure(FailureKind::output, std::string("CUDA: ") + what + ": " + cudaGetErrorName(error) +
                                         " (" + cudaGetErrorString(error) + ")");
}

int64_t bytes_of(const TensorView& view) {
  int64_t bytes = element_size(view.dtype);
  for (int dim = 0; dim < view.rank; ++dim) bytes *= view.shape[dim];
  return bytes;
}

// Copies and kernels go through one stream, so that strips overlap each other: while one is copied
// in, another is cast and a third is copied out.
class CudaDevice final : public StripDevice {
 public:
  CudaDevice() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~CudaDevice() override {
    for (const Room& room : rooms_) cudaFree(room.data);
    cudaStreamDestroy(stream_);
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  TensorView upload(StripRole role, const TensorView& host) override {
    const TensorView there = placed(role, host);
    check(cudaMemcpyAsync(there.data, host.data, static_cast<size_t>(bytes_of(host)),
                          cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync to the device");
    return there;
  }

  TensorView result(StripRole role, const TensorView& host) override {
    results_.push_back({host, placed(role, host)});
    return results_.back().there;
  }

  TensorView scratch(StripRole role, HostBuffer* /*buffer*/, DType dtype, int64_t rows,
                     int64_t columns) override {
    return placed(role,
                  TensorView::contiguous(static_cast<void*>(nullptr), dtype, {rows, columns}));
  }

  void finish() override {
    for (const Result& result : results_) {
      check(cudaMemcpyAsync(result.host.data, result.there.data,
                            static_cast<size_t>(bytes_of(result.host)), cudaMemcpyDeviceToHost,
                            stream_),
            "cudaMemcpyAsync from the device");
    }
    results_.clear();
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  [[nodiscard]] Exec exec() const override {
    Exec out;
    out.stream = stream_;
    return out;
  }

 private:
  struct Room {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  struct Result {
    TensorView host;
    TensorView there;
  };

  // `shape` in the role's memory on the device, which grows only.
  TensorView placed(StripRole role, TensorView shape) {
    Room& room = rooms_[static_cast<size_t>(role)];
    const int64_t bytes = bytes_of(shape);
    if (room.bytes < bytes) {
      check(cudaFree(room.data), "cudaFree");
      room = {};
      check(cudaMalloc(&room.data, static_cast<size_t>(bytes)), "cudaMalloc");
      room.bytes = bytes;
    }
    shape.data = room.data;
    shape.device = {DeviceType::cuda, 0};
    return shape;
  }

  // Page-locked: the device copies such memory by itself.
  HostBuffer::Memory allocate(int64_t bytes) override {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, static_cast<size_t>(bytes)), "cudaMallocHost");
    return {static_cast<std::byte*>(memory), [](std::byte* data) { cudaFreeHost(data); }};
  }

  cudaStream_t stream_ = nullptr;
  std::array<Room, kStripRoles> rooms_;
  std::vector<Result> results_;
};

}  // namespace

std::unique_ptr<StripDevice> open_cuda_strip_device() {
  return std::make_unique<CudaDevice>();
}

}  // namespace rowscale::checkpoint
