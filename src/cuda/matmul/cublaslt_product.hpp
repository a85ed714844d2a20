// One dense product as cuBLASLt computes it. cuBLASLt counts by columns: rowscale's row-major
// D = A B^T is its D^T = B A^T, so that its first operand is rowscale's b, its m is n, its bias
// lies along n.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda/matmul/cublaslt_library.hpp"
#include "rowscale/matmul.hpp"
#include "rowscale/status.hpp"
#include "rowscale/types.hpp"

namespace rowscale::cuda {

// What the product applies itself.
//   scalar   one float an operand
//   vectors  m floats and n floats
//   blocks   of a one float a row and 128 of k, [ceil(k / 128)][m]; of b one a 128x128 block,
//            [n / 128][ceil(k / 128) rounded up to 4]
enum class LtScales { none, scalar, vectors, blocks };

struct LtMatrix {
  DType dtype = DType::e4m3;
  int64_t row_stride = 0;   // elements
  int64_t alignment = 256;  // bytes, of every row
};

struct LtProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  LtMatrix a;
  LtMatrix b;
  LtMatrix out;
  LtScales scales = LtScales::none;
  std::optional<DType> bias;
  Accumulation accumulation = Accumulation::precise;
  BatchInvariance batch_invariance = BatchInvariance::off;
  int device = 0;
};

struct LtPointers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* scale_a = nullptr;  // unless LtScales::none
  const void* scale_b = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
};

// A problem with an algorithm. Holds no pointer to data: concurrent runs share it.
struct LtProduct {
  const CublasLt* library = nullptr;
  cublasLtHandle_t handle = nullptr;
  LtProblem problem;
  cublasLtMatrixLayoutOpaque_t a = {};
  cublasLtMatrixLayoutOpaque_t b = {};
  cublasLtMatrixLayoutOpaque_t out = {};
  cublasLtMatmulHeuristicResult_t algorithm = {};

  // The algorithm's configuration and the library: equal texts run alike.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] size_t workspace_bytes() const { return algorithm.workspaceSize; }
  // On the current device, which is the problem's. Allocates nothing.
  [[nodiscard]] Status run(const LtPointers& pointers, void* workspace, cudaStream_t stream) const;
};

// The heuristic's first `most` algorithms, or why there is none. With batch_invariance on one, of
// those that do not split k: the first that the heuristic gives for a fixed m and that takes the
// problem's m as well.
struct LtAnswer {
  std::vector<LtProduct> products;
  std::string refusal;
};
LtAnswer find_products(const LtProblem& problem, int most);

// How many algorithms a backend offers: several only where they will be measured.
int candidates_of(const MatmulOptions& options);

}  // namespace rowscale::cuda
