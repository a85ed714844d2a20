#include "tests/cuda/support/device.hpp"

#include <stdexcept>
#include <utility>

namespace rowscale::test {

void check_cuda(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error) + " (" +
                           cudaGetErrorString(error) + ")");
}

const std::string& reason_without_gpu() {
  static const std::string reason = [] {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
      return std::string("no CUDA device: ") + cudaGetErrorName(error) + " (" +
             cudaGetErrorString(error) + ")";
    }
    return count == 0 ? std::string("no CUDA device: cudaGetDeviceCount gives 0 (cudaSuccess)")
                      : std::string();
  }();
  return reason;
}

DeviceMemory::DeviceMemory(int64_t bytes) : size_(bytes) {
  void* data = nullptr;
  check_cuda(cudaMalloc(&data, static_cast<size_t>(bytes)), "cudaMalloc");
  data_ = static_cast<std::byte*>(data);
}

DeviceMemory::~DeviceMemory() {
  cudaFree(data_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PinnedMemory::PinnedMemory(int64_t bytes) : size_(bytes) {
  void* data = nullptr;
  check_cuda(cudaMallocHost(&data, static_cast<size_t>(bytes)), "cudaMallocHost");
  data_ = static_cast<std::byte*>(data);
}

PinnedMemory::~PinnedMemory() {
  cudaFreeHost(data_);
}

Stream::Stream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

void Stream::synchronize() const {
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

}  // namespace rowscale::test
