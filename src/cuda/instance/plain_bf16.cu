#include "cuda/instance/instances.cuh"

namespace rowscale::cuda {
namespace {

template <class Access>
using Source = Plain<numerics::Bf16, Access>;

}  // namespace

std::span<const Kernel> plain_bf16_kernels() {
  static const std::vector<Kernel> kernels = make_kernels<Source>(DType::bf16);
  return kernels;
}

}  // namespace rowscale::cuda
