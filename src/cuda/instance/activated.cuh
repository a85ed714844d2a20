// The list of kernels that one activation is compiled into: alone and before a quantize.
#pragma once

#include <vector>

#include "cuda/instance/instances.cuh"
#include "cuda/kernel/make_rows.cuh"
#include "cuda/stage/activation.cuh"

namespace rowscale::cuda {

template <class Operation, class T>
struct ActivatedFrom {
  template <class Access>
  using Source = Activated<Operation, T, Access>;
};

template <class Source>
void append_make_rows(DType input, std::vector<Kernel>* kernels) {
  KernelKey key;
  key.operation = Operation::make_rows;
  key.source = Source::kKind;
  key.input = input;
  key.output = input;
  key.split = plan::GpuSplit::given;
  key.access = Source::Rows::kAccess;
  key.chunks = plan::kGivenChunks;
  kernels->push_back({key, [](const QuantizeCall& call, const Launch& how) {
                        return launch_kernel(&make_rows<Source>, how, MakeArguments<Source>(call));
                      }});
}

template <class Activation, class T>
void append_activated(DType input, std::vector<Kernel>* kernels) {
  using From = ActivatedFrom<Activation, T>;
  const auto fused = make_kernels<From::template Source>(input);
  kernels->insert(kernels->end(), fused.begin(), fused.end());
  append_make_rows<Activated<Activation, T, VectorRows>>(input, kernels);
  append_make_rows<Activated<Activation, T, ElementRows>>(input, kernels);
}

template <class T>
struct UnroundedFrom {
  template <class Access>
  using Source = UnroundedSilu<T, Access>;
};

template <class T>
void append_unrounded(DType input, std::vector<Kernel>* kernels) {
  const auto fused = make_kernels<UnroundedFrom<T>::template Source>(input);
  kernels->insert(kernels->end(), fused.begin(), fused.end());
}

template <class Activation>
std::vector<Kernel> make_activated_kernels() {
  std::vector<Kernel> kernels;
  append_activated<Activation, numerics::Bf16>(DType::bf16, &kernels);
  append_activated<Activation, numerics::Fp16>(DType::f16, &kernels);
  append_activated<Activation, float>(DType::f32, &kernels);
  return kernels;
}

}  // namespace rowscale::cuda
