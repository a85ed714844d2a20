// Products of FP8 matrices with their scales:
//   D[m,n] = cast( sum_k A[m,k] * B[n,k] * scale_a * scale_b + bias[n] )
// Both operands are contiguous along k. Formula, order of operations and the error bound of each
// backend: docs/numerics.md section 8.
//
// Every call is served where there is any way: docs/matmul.md says which backend serves which
// case. Calls are asynchronous in exec.stream for CUDA tensors, on the device of the tensors
// whatever the current one is, and finished on return for CPU tensors. Running a plan allocates
// nothing, waits for nothing and may be captured into a graph. Same input, same plan, same bits.
//
// Errors of every call: invalid_argument (the message names the parameter, what was expected and
// what came), unsupported (no backend takes the call: the message has the reason of each),
// no_device, device_error (what the CUDA runtime or cuBLASLt said of a launch).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rowscale/exec.hpp"
#include "rowscale/export.hpp"
#include "rowscale/recipe.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale {

// Ways to a product. best: the table's choice (docs/matmul.md).
//   cpu         fp32 products and sums
//   cublaslt    cuBLASLt with the scales inside (scalar, outer vectors, 1x128 x 128x128)
//   split       cuBLASLt's product in fp32, then scales, bias and cast in one small kernel
//   small_m     rowscale's kernel for few rows of A: reads the weights once at memory speed
//   general     rowscale's kernel for any shape, stride and alignment, from sm_80 on
//   dequantize  codes as bf16, multiplied by cuBLASLt
enum class MatmulBackend : int32_t {
  best = 0,
  cpu = 1,
  cublaslt = 2,
  split = 3,
  small_m = 4,
  general = 5,
  dequantize = 6
};

// precise: partial sums of at most 128 products are added in fp32. fast: a backend may keep sums in
// the tensor cores' accumulator, which has fewer bits on sm_90.
enum class Accumulation : int32_t { precise = 0, fast = 1 };

// measured: making the plan times every backend and algorithm that serves the call, on memory of
// its own, and takes the fastest. Kept for equal problems until the process ends. Refused while the
// thread's default stream is captured.
enum class Tuning : int32_t { off = 0, measured = 1 };

// on: a row of D has the same bits whatever m is and wherever in A the row stands: one backend and
// one algorithm for all m.
enum class BatchInvariance : int32_t { off = 0, on = 1 };

// The recipes say what the scales mean: granularity, encoding and layout, and the format of the
// codes; the other fields are not read. Pairs that are served:
//   a                 b
//   per_tensor        per_tensor, per_channel
//   per_token         per_tensor, per_channel
//   per_group(128)    per_block(128, 128)
// Formats: e4m3 x e4m3, e4m3 x e5m2, e5m2 x e4m3.
struct MatmulOptions {
  Recipe a = per_token();
  Recipe b = per_channel();
  MatmulBackend backend = MatmulBackend::best;  // any other: that one or unsupported
  Accumulation accumulation = Accumulation::precise;
  Tuning tuning = Tuning::off;
  BatchInvariance batch_invariance = BatchInvariance::off;
  friend bool operator==(const MatmulOptions&, const MatmulOptions&) = default;
};

// The tensors of a call, borrowed. m, n and k may be 0: k = 0 gives the bias, or zeros.
struct MatmulTensors {
  TensorView a;        // e4m3 or e5m2 [m, k], any row stride
  TensorView b;        // e4m3 or e5m2 [n, k], any row stride
  TensorView scale_a;  // as scale_spec(a, options.a)
  TensorView scale_b;  // as scale_spec(b, options.b)
  TensorView bias;     // f32, f16 or bf16 [n]; absent where it is a default TensorView
  TensorView out;      // f32, f16 or bf16 [m, n], any row stride of at least n

  // Experts (grouped_matmul): b is [experts, n, k], and one of
  //   rows sorted by expert: a is [m, k], and rows offsets[e] to offsets[e + 1] belong to expert e.
  //     int32 [experts + 1] on the tensors' device. An offset is clamped to 0 .. m, and to no less
  //     than the one before it. Rows that belong to nobody reach no result and are not written.
  //   masked rows: a is [experts, rows, k] with row_counts, out is [experts, rows, n].
  TensorView expert_offsets;
};

// What one backend answered.
struct MatmulVerdict {
  MatmulBackend backend = MatmulBackend::best;
  std::string refusal;  // empty: it serves the call
};

// The choice of a backend for one shape. Made outside capture; immutable, cheap to copy, usable
// from any thread, by concurrent calls too.
class ROWSCALE_API MatmulPlan {
 public:
  MatmulPlan() = default;  // empty: run() answers invalid_argument

  // Reads shapes, strides, dtypes and devices; of data pointers only how they are aligned (a null
  // pointer stands for memory aligned to 256 bytes), so that plans may be made before memory is
  // there. unsupported: no backend serves the call, or the forced one does not.
  static Status make(const MatmulTensors& tensors, const MatmulOptions& options, MatmulPlan* plan);

  // tensors: of the shapes, strides and dtypes the plan was made for, aligned at least as those
  // were. exec.workspace: workspace_bytes() on the tensors' device at a multiple of 256.
  [[nodiscard]] Status run(const MatmulTensors& tensors, const Exec& exec = {}) const;

  [[nodiscard]] MatmulBackend backend() const;
  [[nodiscard]] size_t workspace_bytes() const;
  // Every backend that was asked, in the table's order, the taken one and those behind it included.
  [[nodiscard]] std::vector<MatmulVerdict> verdicts() const;

  // Same problem, options, backend and algorithm.
  friend ROWSCALE_API bool operator==(const MatmulPlan& a, const MatmulPlan& b);

  class Data;  // src/matmul/plan.hpp

 private:
  std::shared_ptr<const Data> data_;
  friend ROWSCALE_API std::string to_string(const MatmulPlan& plan);
};

// One line for the problem and the choice with its algorithm, library file and version and
// workspace, then one a backend that was asked.
ROWSCALE_API std::string to_string(const MatmulPlan& plan);
ROWSCALE_API const char* to_string(MatmulBackend backend);

// ok where matmul() or grouped_matmul() would serve the call; else unsupported with the reason of
// each backend, or invalid_argument.
ROWSCALE_API Status matmul_supported(const MatmulTensors& tensors,
                                     const MatmulOptions& options = {});

// By a plan that is kept for equal shapes, strides, alignments and options (the last 256 of the
// process). A first call makes the plan, which may take some hundred microseconds and allocate;
// make plans ahead where that matters. bias may be a default TensorView.
ROWSCALE_API Status matmul(const TensorView& a, const TensorView& b, const TensorView& scale_a,
                           const TensorView& scale_b, const TensorView& bias, const TensorView& out,
                           const MatmulOptions& options = {}, const Exec& exec = {});

// The same for experts; offsets is a default TensorView for masked rows. One launch a product.
ROWSCALE_API Status grouped_matmul(const TensorView& a, const TensorView& b,
                                   const TensorView& scale_a, const TensorView& scale_b,
                                   const TensorView& expert_offsets, const TensorView& out,
                                   const MatmulOptions& options = {}, const Exec& exec = {});

// Bytes of exec.workspace that the call needs, 0 where it would fail.
ROWSCALE_API size_t matmul_workspace_bytes(const MatmulTensors& tensors,
                                           const MatmulOptions& options = {});

}  // namespace rowscale
