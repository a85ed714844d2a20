#include "cuda/instance/instances.cuh"

namespace rowscale::cuda {
namespace {

template <class Access>
using Source = Plain<float, Access>;

}  // namespace

std::span<const Kernel> plain_f32_kernels() {
  static const std::vector<Kernel> kernels = make_kernels<Source>(DType::f32);
  return kernels;
}

}  // namespace rowscale::cuda
