// Cases of products in which every value of every choice meets every value of every other one:
// the same for all backends, which leave out what they refuse.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/matmul_cases.hpp"

namespace rowscale::test {

// Products and elements of the largest tensor that a case may have.
struct MatmulLimits {
  int64_t products = int64_t{1} << 40;
  int64_t elements = int64_t{1} << 40;
};

// All pairs of: m of 0 to 4096, n and k of 1 to 14336, recipes with encodings and layouts, formats,
// outputs, biases, views. options.backend is best.
std::vector<MatmulCase> pairwise_matmul_cases();
bool is_within(const MatmulCase& c, const MatmulLimits& limits);

// Recipes of A and B.
struct MatmulRecipes {
  Recipe a, b;
};
// Every pair of granularities with every encoding and layout of both.
std::vector<MatmulRecipes> all_matmul_recipes();

// Rows of experts, sorted and masked: empty experts, one for all, uneven ones, rows of nobody,
// offsets out of range and out of order.
std::vector<MatmulCase> expert_matmul_cases();

// Inputs of public bug reports (docs/bug-cases.md) that are shapes: B28, B34, B36, B62, B65, B67,
// B68, B73, B74, B75, B76, B79, B80.
std::vector<MatmulCase> bug_matmul_cases();

}  // namespace rowscale::test
