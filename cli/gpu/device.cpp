#include "gpu/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "failure.hpp"
#include "gpu/management_library.hpp"

namespace rowscale::cli::gpu {
namespace {

constexpr int64_t kAlignment = 256;

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// 13000 -> "13.0"
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_of(const std::string& bus_id) {
  std::string driver = read_management(bus_id).driver;
  if (!driver.empty()) return driver;
  int cuda = 0;
  check(cudaDriverGetVersion(&cuda), "cudaDriverGetVersion");
  return "for CUDA " + version_text(cuda);
}

std::string bus_id_of(int device) {
  char text[32] = {};
  check(cudaDeviceGetPCIBusId(text, sizeof text, device), "cudaDeviceGetPCIBusId");
  return text;
}

}  // namespace

ExitCode exit_code_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return ExitCode::output;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return ExitCode::unsupported;
    default:
      return ExitCode::fault;
  }
}

void check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  throw Failure(exit_code_of(error), fmt::format("{}: {} ({})", what, cudaGetErrorName(error),
                                                 cudaGetErrorString(error)));
}

Gpu open_gpu() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "--device cuda");
  if (count == 0) throw Failure(ExitCode::unsupported, "--device cuda: no device was found");
  Gpu gpu;
  check(cudaGetDevice(&gpu.index), "cudaGetDevice");
  cudaDeviceProp properties = {};
  check(cudaGetDeviceProperties(&properties, gpu.index), "cudaGetDeviceProperties");
  gpu.name = properties.name;
  gpu.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, gpu.index);
  gpu.l2_bytes = attribute(cudaDevAttrL2CacheSize, gpu.index);
  check(cudaRuntimeGetVersion(&gpu.cuda), "cudaRuntimeGetVersion");
  gpu.driver = driver_of(bus_id_of(gpu.index));
  return gpu;
}

void read_clock(Gpu* gpu) {
  gpu->sm_clock_mhz = read_management(bus_id_of(gpu->index)).sm_clock_mhz;
}

std::string cuda_version(const Gpu& gpu) {
  return version_text(gpu.cuda);
}

std::string to_string(const Gpu& gpu) {
  const std::string clock =
      gpu.sm_clock_mhz > 0 ? fmt::format("SM clock {} MHz", gpu.sm_clock_mhz) : "SM clock unknown";
  return fmt::format("{}, {} multiprocessors, L2 {:.0f} MiB, {}, driver {}, CUDA {}", gpu.name,
                     gpu.multiprocessors, static_cast<double>(gpu.l2_bytes) / (1 << 20), clock,
                     gpu.driver, cuda_version(gpu));
}

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

void Stream::synchronize() const {
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

DeviceBuffer::DeviceBuffer(int64_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (error == cudaErrorMemoryAllocation) {
    throw Failure(ExitCode::output,
                  fmt::format("{} MiB of the GPU's memory are needed beside what is taken, and are "
                              "not left: take a smaller tensor",
                              bytes >> 20));
  }
  check(error, fmt::format("{} bytes on the GPU", bytes));
  data_ = static_cast<std::byte*>(data);
}

DeviceBuffer::~DeviceBuffer() {
  cudaFree(data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

void DeviceBuffer::tile(const Buffer& host) const {
  int64_t filled = std::min(bytes_, host.bytes());
  check(cudaMemcpy(data_, host.data(), static_cast<size_t>(filled), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  while (filled < bytes_) {
    const int64_t more = std::min(filled, bytes_ - filled);
    check(cudaMemcpy(data_ + filled, data_, static_cast<size_t>(more), cudaMemcpyDeviceToDevice),
          "cudaMemcpy");
    filled += more;
  }
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

TensorSet::TensorSet(int count, int64_t bytes)
    : count_(count),
      stride_((bytes + kAlignment - 1) / kAlignment * kAlignment),
      buffer_(count * stride_) {}

}  // namespace rowscale::cli::gpu
