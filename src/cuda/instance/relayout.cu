#include "cuda/kernel/relayout_scales.cuh"

#include "cuda/registry.hpp"

namespace rowscale::cuda {

cudaError_t launch_relayout(const RelayoutCall& call, Launch how) {
  how.threads = kRelayoutThreads;
  how.blocks = (call.scales + kRelayoutThreads - 1) / kRelayoutThreads;
  return launch_kernel(&relayout_scales, how, call);
}

}  // namespace rowscale::cuda
