#pragma once

#include "rowscale/export.hpp"

namespace rowscale {

// "rowscale 0.1.0 (commit 08c6178679dd; GNU 12.2.0; cuda compiler: none; cpu targets: scalar avx2
// avx512; gpu architectures: none)". Static storage.
ROWSCALE_API const char* version();

}  // namespace rowscale
