#include "cuda/kernel/relayout_scales.cuh"

#include "cuda/registry.hpp"

namespace rowscale::cuda {

cudaError_t launch_relayout(const RelayoutCall& call, Launch how) {
  how.threads = kRelayoutThreads;
  how.blocks = (call.scales + kRelayoutThreads - 1) / kRelayoutThreads;
  return launch_kernel(&relayout_scales, how, call);
}

// All kernels of a build are compiled for the same architectures: this small one tells them.
cudaError_t query_code(int* version) {
  cudaFuncAttributes attributes = {};
  const cudaError_t error =
      cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&relayout_scales));
  *version = attributes.ptxVersion;
  return error;
}

}  // namespace rowscale::cuda
