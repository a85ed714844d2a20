#include "cuda/instance/activated.cuh"

namespace rowscale::cuda {

std::span<const Kernel> gelu_tanh_mul_kernels() {
  static const std::vector<Kernel> kernels = make_activated_kernels<GeluTanhMul>();
  return kernels;
}

}  // namespace rowscale::cuda
