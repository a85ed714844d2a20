#include "cuda/devices.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "build_info.hpp"
#include "cuda/context.hpp"
#include "cuda/registry.hpp"

namespace rowscale::cuda {
namespace {

constexpr int kOldestDriver = 13000;  // the CUDA version of driver 580
constexpr int kMostDevices = 64;      // whose facts are kept

Status query(int index, DeviceFacts* facts) {
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
  int l2_bytes = 0;
  int shared_bytes = 0;
  int major = 0;
  int minor = 0;
  for (const auto& [value, attribute] :
       {std::pair{&facts->multiprocessors, cudaDevAttrMultiProcessorCount},
        std::pair{&l2_bytes, cudaDevAttrL2CacheSize},
        std::pair{&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin},
        std::pair{&major, cudaDevAttrComputeCapabilityMajor},
        std::pair{&minor, cudaDevAttrComputeCapabilityMinor}}) {
    const Status status =
        status_of(cudaDeviceGetAttribute(value, attribute, index), "cudaDeviceGetAttribute");
    if (!status.ok()) return status;
  }
  facts->l2_bytes = l2_bytes;
  facts->shared_bytes = shared_bytes;

  const ScopedDevice device(index);
  if (!device.status().ok()) return device.status();
  const Status status = status_of(query_code(&facts->code_version), "rowscale's kernels");
  if (status.code() == StatusCode::unsupported) {
    return {StatusCode::unsupported,
            fmt::format("cuda:{} has compute capability {}.{}; this build has kernels for {}",
                        index, major, minor, ROWSCALE_CUDA_ARCHITECTURES_TEXT)};
  }
  return status;
}

struct Known {
  std::atomic<bool> is_known{false};
  std::mutex mutex;
  DeviceFacts facts;
};

}  // namespace

Status find_device(int index, DeviceFacts* facts) {
  static std::array<Known, kMostDevices> devices;
  if (index < 0 || index >= kMostDevices) return query(index, facts);
  Known& known = devices[static_cast<size_t>(index)];
  if (!known.is_known.load(std::memory_order_acquire)) {
    const std::lock_guard<std::mutex> lock(known.mutex);
    if (!known.is_known.load(std::memory_order_relaxed)) {
      DeviceFacts found;
      if (Status status = query(index, &found); !status.ok()) return status;
      known.facts = found;
      known.is_known.store(true, std::memory_order_release);
    }
  }
  *facts = known.facts;
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

}  // namespace rowscale::cuda
