// The GPUs of this machine: whether one can be used, and what a plan has to know of it. In a build
// without CUDA each answers unsupported (absent.cpp).
#pragma once

#include <cstdint>

#include "rowscale/status.hpp"

namespace rowscale::cuda {

struct DeviceFacts {
  int multiprocessors = 1;
  int64_t l2_bytes = 0;
  int64_t shared_bytes = 0;  // that a block may ask for
  // The architecture that this build's kernels for it were compiled for: 90 for compute_90.
  int code_version = 0;
};

// no_device: no driver, one older than CUDA 13.0 (driver 580), or no device of that index.
// unsupported: this build has no kernels for it. What is found is kept after the first call for a
// device; that call loads code, so that the device's memory and a little time are used.
Status find_device(int index, DeviceFacts* facts);

// invalid_argument where `data` is memory that the device cannot reach: of the host, or of another
// device. `name` is the tensor's.
Status check_memory(const char* name, const void* data, int index);

}  // namespace rowscale::cuda
