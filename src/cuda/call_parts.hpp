// What the operators make their calls of.
#pragma once

#include "cuda/calls.hpp"
#include "cuda/context.hpp"
#include "cuda/device/launcher.hpp"
#include "cuda/devices.hpp"
#include "cuda/operators.hpp"
#include "cuda/registry.hpp"

namespace rowscale::cuda {

Launch launch_of(const Exec& exec, const DeviceFacts& facts, int64_t blocks, int threads);

// Finds the kernel of `key` and makes `start(kernel, facts)` launch it, on the device of that index
// whatever the current one is. The message of a failed launch names the kernel.
template <class Start>
Status start_kernel(const KernelKey& key, int device_index, Start&& start) {
  DeviceFacts facts;
  if (Status s = find_device(device_index, &facts); !s.ok()) return s;
  const Kernel* kernel = nullptr;
  if (Status s = find_kernel(key, &kernel); !s.ok()) return s;
  const ScopedDevice device(device_index);
  if (!device.status().ok()) return device.status();
  const cudaError_t error = start(*kernel, facts);
  return error == cudaSuccess ? Status() : status_of(error, to_string(key));
}

// A call that quantizes, and one that stores rows only.
QuantizeCall quantize_call(const plan::Source& source, const Recipe& recipe,
                           const TensorView& codes, const TensorView& scales,
                           const plan::GpuPlan& plan);
QuantizeCall rows_call(const plan::Source& source, const TensorView& y, const plan::GpuPlan& plan);

}  // namespace rowscale::cuda
