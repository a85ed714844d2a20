#include "cuda/instance/activated.cuh"

namespace rowscale::cuda {

std::span<const Kernel> relu2_kernels() {
  static const std::vector<Kernel> kernels = make_activated_kernels<Relu2>();
  return kernels;
}

}  // namespace rowscale::cuda
