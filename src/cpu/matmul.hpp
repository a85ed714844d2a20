// Products on the CPU. Tiles of rows and columns of out, the same for every target and every number
// of threads; an element is one chain of fp32 operations in a fixed order:
//   for each block of 128 of k: p = fma(a, b, p) from 0, k ascending; then sum = sum + p, or with
//   block scales sum = sum + (p * scale_a) * scale_b; at last (sum * scale_a) * scale_b + bias
// so its bits depend on its own row and column alone.
#pragma once

#include "matmul/problem.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/matmul.hpp"

namespace rowscale::cpu {

// Tensors of the problem; out has elements; the target is one that the machine runs.
void matmul(const product::Problem& problem, const MatmulTensors& tensors, const Exec& exec);

}  // namespace rowscale::cpu
