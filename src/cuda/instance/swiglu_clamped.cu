#include "cuda/instance/activated.cuh"

namespace rowscale::cuda {

std::span<const Kernel> swiglu_clamped_kernels() {
  static const std::vector<Kernel> kernels = make_activated_kernels<SwigluClamp>();
  return kernels;
}

}  // namespace rowscale::cuda
