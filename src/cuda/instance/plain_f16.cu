#include "cuda/instance/instances.cuh"

namespace rowscale::cuda {
namespace {

template <class Access>
using Source = Plain<numerics::Fp16, Access>;

}  // namespace

std::span<const Kernel> plain_f16_kernels() {
  static const std::vector<Kernel> kernels = [] {
    std::vector<Kernel> all = make_kernels<Source>(DType::f16);
    append_run_kernels<Source>(DType::f16, &all);
    return all;
  }();
  return kernels;
}

}  // namespace rowscale::cuda
