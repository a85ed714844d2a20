#include "cuda/instance/instances.cuh"

namespace rowscale::cuda {
namespace {

template <class Access>
using Source = Plain<numerics::Fp16, Access>;

}  // namespace

std::span<const Kernel> plain_f16_kernels() {
  static const std::vector<Kernel> kernels = make_kernels<Source>(DType::f16);
  return kernels;
}

}  // namespace rowscale::cuda
