#include "cuda/instance/instances.cuh"

namespace rowscale::cuda {
namespace {

template <class Access>
using Source = Plain<numerics::Bf16, Access>;

}  // namespace

std::span<const Kernel> plain_bf16_kernels() {
  static const std::vector<Kernel> kernels = [] {
    std::vector<Kernel> all = make_kernels<Source>(DType::bf16);
    append_run_kernels<Source>(DType::bf16, &all);
    return all;
  }();
  return kernels;
}

}  // namespace rowscale::cuda
