// The current device, and errors of the CUDA runtime as a Status.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "rowscale/status.hpp"

namespace rowscale::cuda {

// Makes a device current, and the one before it again at the end.
class ScopedDevice {
 public:
  explicit ScopedDevice(int index);
  ~ScopedDevice();
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  int before_ = -1;
  bool changed_ = false;
  Status status_;
};

// ok for cudaSuccess; else device_error, or unsupported where the kernel has no code for the
// device, with the error's name and what was being done.
Status status_of(cudaError_t error, const std::string& what);

}  // namespace rowscale::cuda
