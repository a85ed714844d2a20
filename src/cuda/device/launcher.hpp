// A launch as the host makes it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "rowscale/exec.hpp"

namespace rowscale::cuda {

struct Launch {
  int64_t blocks = 0;
  int threads = 0;
  cudaStream_t stream = nullptr;
  DependentLaunch dependent = DependentLaunch::off;  // on the kernel before the call
  // Of a second kernel of the same call on the first. Nobody else sees it: the first is launched as
  // the caller asks, and the second waits for all of it.
  DependentLaunch inner = DependentLaunch::off;
  size_t shared_bytes = 0;  // dynamic
};

// `arguments` have the types of the kernel's parameters.
template <class... Arguments>
cudaError_t launch_kernel(void (*kernel)(Arguments...), const Launch& launch,
                          std::type_identity_t<Arguments>... arguments) {
  constexpr int64_t kMostX = 0x7FFFFFFF;  // kernels with positions of 64 bits count through y too
  const int64_t x = launch.blocks < kMostX ? launch.blocks : kMostX;
  const int64_t y = (launch.blocks + x - 1) / x;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(x), static_cast<unsigned>(y));
  config.blockDim = dim3(static_cast<unsigned>(launch.threads));
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = launch.stream;
  config.attrs = &attribute;
  config.numAttrs = launch.dependent == DependentLaunch::on ? 1 : 0;
  void* parameters[] = {const_cast<std::remove_const_t<Arguments>*>(&arguments)...};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), parameters);
}

}  // namespace rowscale::cuda
