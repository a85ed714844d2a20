// The rules of operators that make rows, and of those that quantize them in the same pass.
#pragma once

#include <cstdint>

#include "api/check.hpp"

namespace rowscale::api {

// A row as it was made, in the dtype of x.
Status check_row(Named row, Named x, int64_t columns);

// Recipes whose scales need no more than one row. Messages name `name`, "recipe" or what ends in
// it.
Status check_fused_recipe(const char* name, const Recipe& recipe);

// unsupported for a profile other than rowscale.
Status check_own_profile(const char* name, const Recipe& recipe);

}  // namespace rowscale::api
