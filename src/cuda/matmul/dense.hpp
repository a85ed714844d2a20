// What cuBLASLt's backends ask of a problem before they ask cuBLASLt.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/matmul/cublaslt_product.hpp"
#include "matmul/problem.hpp"
#include "rowscale/matmul.hpp"

namespace rowscale::cuda {

// Each refusal is a phrase: "k: expected a multiple of 16, got 17". Empty: none.

// A dense product of at least one element and one k, on a GPU.
std::string refuse_shape(const product::Problem& problem);

// FP8 operands as cuBLASLt reads them: k and n multiples of 16; rows that do not overlap, aligned
// to 16 bytes.
std::string refuse_codes(const product::Problem& problem);

// Major and minor of the compute capability: 90 is sm_90; 0 where there is no such device.
int architecture_of(Device device);

LtMatrix lt_matrix(const product::Operand& operand);

// Of the problem's FP8 operands, with neither scales nor a bias, into its output.
LtProblem lt_problem(const product::Problem& problem, const MatmulOptions& options);

}  // namespace rowscale::cuda
