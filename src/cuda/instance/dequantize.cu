#include "cuda/kernel/dequantize.cuh"

#include <vector>

#include "cuda/registry.hpp"

namespace rowscale::cuda {
namespace {

template <class T>
constexpr DType dtype_of() {
  return sizeof(T) == 4 ? DType::f32 : std::is_same_v<T, numerics::Fp16> ? DType::f16 : DType::bf16;
}

template <class F, class Access, class T>
void append(std::vector<Kernel>* kernels) {
  using Source = Dequantized<F, Access>;
  KernelKey key;
  key.operation = Operation::dequantize;
  key.source = plan::SourceKind::dequantized;
  key.input = Codec<F>::kFormat == Format::e4m3 ? DType::e4m3 : DType::e5m2;
  key.output = dtype_of<T>();
  key.split = plan::GpuSplit::given;
  key.access = Access::kAccess;
  key.chunks = plan::kGivenChunks;
  kernels->push_back({key, nullptr, nullptr, [](const DequantizeCall& call, const Launch& how) {
                        return launch_kernel(&dequantize_chunks<Source, T>, how,
                                             DequantizeArguments<Source>(call));
                      }});
}

template <class F, class Access>
void append_outputs(std::vector<Kernel>* kernels) {
  append<F, Access, float>(kernels);
  append<F, Access, numerics::Fp16>(kernels);
  append<F, Access, numerics::Bf16>(kernels);
}

}  // namespace

std::span<const Kernel> dequantize_kernels() {
  static const std::vector<Kernel> kernels = [] {
    std::vector<Kernel> all;
    append_outputs<numerics::E4m3, VectorRows>(&all);
    append_outputs<numerics::E5m2, VectorRows>(&all);
    append_outputs<numerics::E4m3, ElementRows>(&all);
    append_outputs<numerics::E5m2, ElementRows>(&all);
    return all;
  }();
  return kernels;
}

}  // namespace rowscale::cuda
