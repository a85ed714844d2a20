// Everything of rowscale's C++ interface.
#pragma once

#include "rowscale/exec.hpp"       // IWYU pragma: export
#include "rowscale/linear.hpp"     // IWYU pragma: export
#include "rowscale/matmul.hpp"     // IWYU pragma: export
#include "rowscale/mla.hpp"        // IWYU pragma: export
#include "rowscale/producers.hpp"  // IWYU pragma: export
#include "rowscale/quantize.hpp"   // IWYU pragma: export
#include "rowscale/recipe.hpp"     // IWYU pragma: export
#include "rowscale/status.hpp"     // IWYU pragma: export
#include "rowscale/tensor.hpp"     // IWYU pragma: export
#include "rowscale/types.hpp"      // IWYU pragma: export
#include "rowscale/version.hpp"    // IWYU pragma: export
