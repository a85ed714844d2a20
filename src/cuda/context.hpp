// The current device, and errors of the CUDA runtime as a Status.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

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

// ok for cudaSuccess, without an allocation; else device_error, or unsupported where there is no
// code for the device, with the error's name and what was being done. Takes note of the error for
// the whole thread: the next call of the runtime does not find it. An error of earlier work, which
// the runtime reports late, comes under the name of the call that met it.
Status status_of(cudaError_t error, std::string_view what);

}  // namespace rowscale::cuda
