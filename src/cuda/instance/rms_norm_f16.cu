#include "cuda/instance/norms.cuh"

namespace rowscale::cuda {

std::span<const Kernel> rms_norm_f16_kernels() {
  static const std::vector<Kernel> kernels = NormInstances<numerics::Fp16>::make(DType::f16);
  return kernels;
}

}  // namespace rowscale::cuda
