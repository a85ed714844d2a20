#include "cuda/kernel/mla_rows.cuh"

#include <vector>

#include "cuda/registry.hpp"

namespace rowscale::cuda {
namespace {

constexpr plan::NormShape kShape = plan::kMlaShape;
constexpr int kResident = plan::resident_blocks(kShape, plan::NormResidual::none);

template <class T, class Scales, plan::NormUnit kUnit>
using Part = NormBlock<NormRows<T, VectorRows>, Scales, Codec<numerics::E4m3>, kUnit,
                       plan::NormResidual::none, kShape.threads, kShape.chunks>;

KernelKey key_of(DType input, plan::GpuSplit split, plan::GpuAccess access) {
  KernelKey key;
  key.operation = Operation::mla;
  key.source = plan::SourceKind::rms_norm;
  key.input = input;
  key.split = split;
  key.access = access;
  key.chunks = 0;
  return key;
}

template <class T, class Scales, plan::NormUnit kUnit>
void append_rows(DType input, std::vector<Kernel>* kernels) {
  using Q = Part<T, Scales, kUnit>;
  using Kv = Part<T, GeneralScales, plan::NormUnit::none>;
  KernelKey key = key_of(input, plan::GpuSplit::norm, plan::GpuAccess::vectors);
  key.scales = Scales::kScales;
  key.unit = kUnit;
  key.threads = kShape.threads;
  key.chunks = kShape.chunks;
  kernels->push_back({key, nullptr, [](const MlaCall& call, const Launch& how) {
                        // The even share is the simple one: no other was measured.
                        const auto q_blocks = static_cast<int32_t>((how.blocks + 1) / 2);
                        return launch_kernel(&mla_rows<T, Q, Kv, kShape.threads, kResident>, how,
                                             MlaArguments<T, Q, Kv>(call, q_blocks));
                      }});
}

template <class T>
void append_all_rows(DType input, std::vector<Kernel>* kernels) {
  using F = FloatScales<numerics::E4m3>;
  using P = PowerScales<numerics::E4m3>;
  append_rows<T, F, plan::NormUnit::row>(input, kernels);
  append_rows<T, P, plan::NormUnit::row>(input, kernels);
  append_rows<T, F, plan::NormUnit::group>(input, kernels);
  append_rows<T, P, plan::NormUnit::group>(input, kernels);
  append_rows<T, GeneralScales, plan::NormUnit::given>(input, kernels);
}

template <class T, class Access>
void append_any(DType input, std::vector<Kernel>* kernels) {
  kernels->push_back({key_of(input, plan::GpuSplit::norm_any, Access::kAccess), nullptr,
                      [](const MlaCall& call, const Launch& how) {
                        return launch_kernel(&mla_any<T, Access>, how,
                                             MlaAnyArguments<T, Access>(call));
                      }});
}

template <class T>
void append_every_access(DType input, std::vector<Kernel>* kernels) {
  append_any<T, VectorRows>(input, kernels);
  append_any<T, ElementRows>(input, kernels);
}

}  // namespace

std::span<const Kernel> mla_kernels() {
  static const std::vector<Kernel> kernels = [] {
    std::vector<Kernel> all;
    append_all_rows<numerics::Bf16>(DType::bf16, &all);
    append_all_rows<numerics::Fp16>(DType::f16, &all);
    append_every_access<numerics::Bf16>(DType::bf16, &all);
    append_every_access<numerics::Fp16>(DType::f16, &all);
    append_every_access<float>(DType::f32, &all);
    return all;
  }();
  return kernels;
}

}  // namespace rowscale::cuda
