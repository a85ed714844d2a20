#include "cuda/context.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>

#include "cuda/operators.hpp"

namespace rowscale::cuda {
namespace {

constexpr int kOldestDriver = 13000;  // the CUDA version of driver 580
constexpr int kMostDevices = 64;      // whose facts are kept

Status query(int index, int* multiprocessors) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return {StatusCode::no_device, "no CUDA driver was found; rowscale needs driver 580 or newer"};
  }
  if (driver < kOldestDriver) {
    return {StatusCode::no_device,
            fmt::format("the driver supports CUDA {}.{}; rowscale needs driver 580 (CUDA 13.0) or "
                        "newer",
                        driver / 1000, driver % 1000 / 10)};
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return {StatusCode::no_device, fmt::format("no CUDA device: {}", cudaGetErrorName(error))};
  }
  if (index < 0 || index >= count) {
    return {StatusCode::no_device,
            fmt::format("device: expected an index below {}, got cuda:{}", count, index)};
  }
  return status_of(cudaDeviceGetAttribute(multiprocessors, cudaDevAttrMultiProcessorCount, index),
                   "cudaDeviceGetAttribute");
}

}  // namespace

Status status_of(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // taken note of: not to be found by the caller's next call
  const bool no_code =
      error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction;
  return {no_code ? StatusCode::unsupported : StatusCode::device_error,
          fmt::format("{}: {} ({})", what, cudaGetErrorName(error), cudaGetErrorString(error))};
}

Status find_device(int index, DeviceFacts* facts) {
  static std::array<std::atomic<int>, kMostDevices> known;  // multiprocessors; 0: not asked yet
  const bool is_kept = index >= 0 && index < kMostDevices;
  if (is_kept) {
    facts->multiprocessors = known[static_cast<size_t>(index)].load(std::memory_order_relaxed);
    if (facts->multiprocessors > 0) return {};
  }
  if (Status status = query(index, &facts->multiprocessors); !status.ok()) return status;
  if (is_kept) {
    known[static_cast<size_t>(index)].store(facts->multiprocessors, std::memory_order_relaxed);
  }
  return {};
}

Status check_memory(const char* name, const void* data, int index) {
  cudaPointerAttributes attributes = {};
  if (Status status =
          status_of(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
      !status.ok()) {
    return status;
  }
  switch (attributes.type) {
    case cudaMemoryTypeHost:
    case cudaMemoryTypeManaged:
      if (attributes.devicePointer == data) return {};
      break;
    case cudaMemoryTypeDevice:
      if (attributes.device == index) return {};
      return {StatusCode::invalid_argument,
              fmt::format("{}: expected memory of cuda:{}, got memory of cuda:{}", name, index,
                          attributes.device)};
    default:
      break;
  }
  return {StatusCode::invalid_argument,
          fmt::format("{}: expected memory of cuda:{}, got memory of the host", name, index)};
}

ScopedDevice::ScopedDevice(int index) {
  status_ = status_of(cudaGetDevice(&before_), "cudaGetDevice");
  if (!status_.ok() || before_ == index) return;
  status_ = status_of(cudaSetDevice(index), fmt::format("cudaSetDevice({})", index));
  changed_ = status_.ok();
}

ScopedDevice::~ScopedDevice() {
  if (changed_) cudaSetDevice(before_);
}

}  // namespace rowscale::cuda
