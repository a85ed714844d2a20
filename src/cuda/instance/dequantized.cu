// requantize: codes of one recipe to those of another.
#include "cuda/instance/instances.cuh"

namespace rowscale::cuda {
namespace {

template <class Access>
using FromE4m3 = Dequantized<numerics::E4m3, Access>;
template <class Access>
using FromE5m2 = Dequantized<numerics::E5m2, Access>;

}  // namespace

std::span<const Kernel> dequantized_kernels() {
  static const std::vector<Kernel> kernels = [] {
    auto all = make_kernels<FromE4m3>(DType::e4m3);
    const auto more = make_kernels<FromE5m2>(DType::e5m2);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return kernels;
}

}  // namespace rowscale::cuda
