#include "cuda/context.hpp"

#include <fmt/format.h>

namespace rowscale::cuda {

Status status_of(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();
  const bool no_code =
      error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction;
  return {no_code ? StatusCode::unsupported : StatusCode::device_error,
          fmt::format("{}: {} ({})", what, cudaGetErrorName(error), cudaGetErrorString(error))};
}

ScopedDevice::ScopedDevice(int index) {
  status_ = status_of(cudaGetDevice(&before_), "cudaGetDevice");
  if (!status_.ok() || before_ == index) return;
  status_ = status_of(cudaSetDevice(index), "cudaSetDevice");
  changed_ = status_.ok();
}

ScopedDevice::~ScopedDevice() {
  if (changed_) cudaSetDevice(before_);
}

}  // namespace rowscale::cuda
