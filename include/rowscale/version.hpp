#pragma once

#include "rowscale/export.hpp"

namespace rowscale {

// "0.1.0 (commit abcdef123456; g++ 12.2.0; nvcc 13.0 or no CUDA; cpu: scalar avx2 avx512; gpu: ...)"
ROWSCALE_API const char* version();

}  // namespace rowscale
