#include "rowscale/version.hpp"

#include <string>

#include "build_info.hpp"
#include "cpu/target.hpp"

namespace rowscale {

const char* version() {
  static const std::string text = [] {
    std::string cpu = "scalar";
    for (Target target : {Target::avx2, Target::avx512}) {
      if (cpu::has_simd_kernels(target)) cpu += std::string(" ") + to_string(target);
    }
    return std::string("rowscale ") + ROWSCALE_VERSION_STRING + " (commit " + ROWSCALE_COMMIT +
           "; " + ROWSCALE_CXX_COMPILER + "; cuda compiler: " + ROWSCALE_CUDA_COMPILER +
           "; cpu targets: " + cpu + "; gpu architectures: " + ROWSCALE_CUDA_ARCHITECTURES_TEXT +
           ")";
  }();
  return text.c_str();
}

}  // namespace rowscale
