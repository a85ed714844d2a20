#include "cuda/instance/norm_teams.cuh"

namespace rowscale::cuda {

std::span<const Kernel> rms_norm_teams_f16_kernels() {
  static const std::vector<Kernel> kernels = NormTeamInstances<numerics::Fp16>::make(DType::f16);
  return kernels;
}

}  // namespace rowscale::cuda
