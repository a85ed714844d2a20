#include "cuda/instance/norms.cuh"

namespace rowscale::cuda {

std::span<const Kernel> rms_norm_bf16_kernels() {
  static const std::vector<Kernel> kernels = NormInstances<numerics::Bf16>::make(DType::bf16);
  return kernels;
}

}  // namespace rowscale::cuda
