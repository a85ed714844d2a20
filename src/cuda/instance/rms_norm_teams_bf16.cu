#include "cuda/instance/norm_teams.cuh"

namespace rowscale::cuda {

std::span<const Kernel> rms_norm_teams_bf16_kernels() {
  static const std::vector<Kernel> kernels = NormTeamInstances<numerics::Bf16>::make(DType::bf16);
  return kernels;
}

}  // namespace rowscale::cuda
