// Norms of rows that are read again: any dtype, length, layout and recipe.
#include <vector>

#include "cuda/kernel/norm_any.cuh"
#include "cuda/registry.hpp"

namespace rowscale::cuda {
namespace {

template <class T, class Access, class Format>
void append(DType input, Operation operation, std::vector<Kernel>* kernels) {
  KernelKey key;
  key.operation = operation;
  key.source = plan::SourceKind::rms_norm;
  key.input = input;
  key.output = operation == Operation::make_rows                  ? input
               : Codec<Format>::kFormat == rowscale::Format::e4m3 ? DType::e4m3
                                                                  : DType::e5m2;
  key.split = plan::GpuSplit::norm_any;
  key.access = Access::kAccess;
  key.chunks = 0;
  kernels->push_back({key, [](const QuantizeCall& call, const Launch& how) {
                        return launch_kernel(&norm_any<T, Access, Codec<Format>>, how,
                                             NormAnyArguments<T, Access>(call));
                      }});
}

template <class T, class Access>
void append_all(DType input, std::vector<Kernel>* kernels) {
  append<T, Access, numerics::E4m3>(input, Operation::make_rows, kernels);
  append<T, Access, numerics::E4m3>(input, Operation::quantize, kernels);
  append<T, Access, numerics::E5m2>(input, Operation::quantize, kernels);
}

template <class T>
void append_dtype(DType input, std::vector<Kernel>* kernels) {
  append_all<T, VectorRows>(input, kernels);
  append_all<T, ElementRows>(input, kernels);
}

}  // namespace

std::span<const Kernel> rms_norm_any_kernels() {
  static const std::vector<Kernel> kernels = [] {
    std::vector<Kernel> all;
    append_dtype<numerics::Bf16>(DType::bf16, &all);
    append_dtype<numerics::Fp16>(DType::f16, &all);
    append_dtype<float>(DType::f32, &all);
    return all;
  }();
  return kernels;
}

}  // namespace rowscale::cuda
