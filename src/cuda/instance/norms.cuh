// The list of kernels that keep normed rows of one dtype in registers.
#pragma once

#include <utility>
#include <vector>

#include "cuda/kernel/norm_rows.cuh"
#include "cuda/registry.hpp"

namespace rowscale::cuda {

template <class T>
class NormInstances {
 public:
  static std::vector<Kernel> make(DType input) {
    NormInstances list(input);
    using Format = numerics::E4m3;
    list.template add<FloatScales<Format>, plan::NormUnit::row>();
    list.template add<PowerScales<Format>, plan::NormUnit::row>();
    list.template add<FloatScales<Format>, plan::NormUnit::group>();
    list.template add<PowerScales<Format>, plan::NormUnit::group>();
    list.template add<GeneralScales, plan::NormUnit::given>();
    list.template add<GeneralScales, plan::NormUnit::none>();
    return std::move(list.kernels_);
  }

 private:
  using Source = NormRows<T, VectorRows>;

  explicit NormInstances(DType input) : input_(input) {}

  template <class Scales, plan::NormUnit kUnit>
  void add() {
    add_shapes<Scales, kUnit>(std::make_index_sequence<std::size(plan::kNormShapes)>());
  }
  template <class Scales, plan::NormUnit kUnit, size_t... kIndex>
  void add_shapes(std::index_sequence<kIndex...>) {
    (add_shape<Scales, kUnit, plan::NormResidual::none, plan::kNormShapes[kIndex]>(), ...);
    (add_shape<Scales, kUnit, plan::NormResidual::added, plan::kNormShapes[kIndex]>(), ...);
  }
  template <class Scales, plan::NormUnit kUnit, plan::NormResidual kResidual,
            plan::NormShape kShape>
  void add_shape() {
    if constexpr (plan::serves(kShape, kResidual)) add_kernel<Scales, kUnit, kResidual, kShape>();
  }
  template <class Scales, plan::NormUnit kUnit, plan::NormResidual kResidual,
            plan::NormShape kShape>
  void add_kernel() {
    KernelKey key;
    key.source = plan::SourceKind::rms_norm;
    key.input = input_;
    if (kUnit == plan::NormUnit::none) {
      key.operation = Operation::make_rows;
      key.output = input_;
    }
    key.split = plan::GpuSplit::norm;
    key.scales = Scales::kScales;
    key.chunks = kShape.chunks;
    key.threads = kShape.threads;
    key.unit = kUnit;
    key.residual = kResidual;
    kernels_.push_back({key, [](const QuantizeCall& call, const Launch& how) {
                          return launch_kernel(
                              &norm_rows<Source, Scales, Codec<numerics::E4m3>, kUnit, kResidual,
                                         kShape.threads, kShape.chunks>,
                              how, QuantizeArguments<Source, Scales>(call));
                        }});
  }

  DType input_;
  std::vector<Kernel> kernels_;
};

}  // namespace rowscale::cuda
