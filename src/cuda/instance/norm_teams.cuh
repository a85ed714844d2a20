// The list of kernels that norm rows of one dtype by teams.
#pragma once

#include <utility>
#include <vector>

#include "cuda/kernel/norm_teams.cuh"
#include "cuda/registry.hpp"

namespace rowscale::cuda {

// Lets a kernel take as much dynamic shared memory as any plan may ask for, whichever call comes
// first. Of the current device.
inline cudaError_t allow_team_memory(const void* kernel) {
  int device = 0;
  int bytes = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              bytes - plan::kNormTeamStaticBytes);
}

template <class T>
class NormTeamInstances {
 public:
  static std::vector<Kernel> make(DType input) {
    NormTeamInstances list(input);
    using Format = numerics::E4m3;
    list.template add<FloatScales<Format>, plan::NormUnit::row>();
    list.template add<PowerScales<Format>, plan::NormUnit::row>();
    list.template add<FloatScales<Format>, plan::NormUnit::group>();
    list.template add<PowerScales<Format>, plan::NormUnit::group>();
    return std::move(list.kernels_);
  }

 private:
  using Source = NormRows<T, VectorRows>;

  explicit NormTeamInstances(DType input) : input_(input) {}

  template <class Scales, plan::NormUnit kUnit>
  void add() {
    add_rounds<Scales, kUnit>(std::make_integer_sequence<int, plan::kMostNormTeamRounds>());
  }
  template <class Scales, plan::NormUnit kUnit, int... kIndex>
  void add_rounds(std::integer_sequence<int, kIndex...>) {
    (add_kernel<Scales, kUnit, kIndex + 1>(), ...);
  }
  template <class Scales, plan::NormUnit kUnit, int kRounds>
  void add_kernel() {
    KernelKey key;
    key.source = plan::SourceKind::rms_norm;
    key.input = input_;
    key.split = plan::GpuSplit::norm_team;
    key.scales = Scales::kScales;
    key.chunks = plan::kNormTeamChunks;
    key.rounds = kRounds;
    key.unit = kUnit;
    kernels_.push_back({key, &launch<Scales, kUnit, kRounds>});
  }
  template <class Scales, plan::NormUnit kUnit, int kRounds>
  static cudaError_t launch(const QuantizeCall& call, const Launch& how) {
    const auto kernel = &norm_teams<Source, Scales, Codec<numerics::E4m3>, kUnit, kRounds>;
    const cudaError_t error = allow_team_memory(reinterpret_cast<const void*>(kernel));
    if (error != cudaSuccess) return error;
    Launch with_memory = how;
    with_memory.shared_bytes = static_cast<size_t>(
        plan::norm_team_shared_bytes(call.teams, call.depth, call.codes.columns()));
    return launch_kernel(kernel, with_memory, NormTeamArguments<Source, Scales>(call));
  }

  DType input_;
  std::vector<Kernel> kernels_;
};

}  // namespace rowscale::cuda
