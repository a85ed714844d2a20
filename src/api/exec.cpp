#include "rowscale/exec.hpp"

#include "cpu/target.hpp"

namespace rowscale {

const char* to_string(Target target) {
  switch (target) {
    case Target::best:
      return "best";
    case Target::scalar:
      return "scalar";
    case Target::avx2:
      return "avx2";
    case Target::avx512:
      return "avx512";
  }
  return "unknown";
}

std::vector<Target> supported_targets() {
  std::vector<Target> targets;
  for (Target target : {Target::avx512, Target::avx2, Target::scalar}) {
    if (cpu::is_supported(target)) targets.push_back(target);
  }
  return targets;
}

}  // namespace rowscale
