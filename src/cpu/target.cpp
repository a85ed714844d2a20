#include "cpu/target.hpp"

namespace rowscale::cpu {
namespace {

bool machine_runs(Target target) {
#if defined(__x86_64__)
  // __builtin_cpu_supports also asks whether the system saves the registers.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");
  if (target == Target::avx2) return avx2;
  if (target == Target::avx512) {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  }
#endif
  return target == Target::scalar;
}

}  // namespace

bool is_supported(Target target) {
  if (target == Target::best || target == Target::scalar) return true;
  return has_simd_kernels(target) && machine_runs(target);
}

Target resolve_target(Target target) {
  if (target != Target::best) return target;
  static const Target best = is_supported(Target::avx512) ? Target::avx512
                             : is_supported(Target::avx2) ? Target::avx2
                                                          : Target::scalar;
  return best;
}

const Kernels& kernels(Target target) {
  return target == Target::scalar ? scalar_kernels() : simd_kernels(target);
}

}  // namespace rowscale::cpu
