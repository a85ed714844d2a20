// silu_mul with the cast points of profile vllm.
#include "cuda/instance/activated.cuh"

namespace rowscale::cuda {

std::span<const Kernel> silu_mul_vllm_kernels() {
  static const std::vector<Kernel> kernels = [] {
    std::vector<Kernel> all;
    append_unrounded<numerics::Bf16>(DType::bf16, &all);
    append_unrounded<numerics::Fp16>(DType::f16, &all);
    append_unrounded<float>(DType::f32, &all);
    return all;
  }();
  return kernels;
}

}  // namespace rowscale::cuda
