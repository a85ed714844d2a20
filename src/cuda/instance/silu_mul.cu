#include "cuda/instance/activated.cuh"

namespace rowscale::cuda {

std::span<const Kernel> silu_mul_kernels() {
  static const std::vector<Kernel> kernels = make_activated_kernels<SiluMul>();
  return kernels;
}

}  // namespace rowscale::cuda
