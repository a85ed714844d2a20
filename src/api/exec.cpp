#include "rowscale/exec.hpp"

#include "api/words.hpp"
#include "cpu/target.hpp"

namespace rowscale {

const char* to_string(Target target) {
  const char* word = api::word_of(target);
  return word == nullptr ? "unknown" : word;
}

std::vector<Target> supported_targets() {
  std::vector<Target> targets;
  for (Target target : {Target::avx512, Target::avx2, Target::scalar}) {
    if (cpu::is_supported(target)) targets.push_back(target);
  }
  return targets;
}

}  // namespace rowscale
