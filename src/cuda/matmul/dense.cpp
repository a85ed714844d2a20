#include "cuda/matmul/dense.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <utility>

namespace rowscale::cuda {
namespace {

constexpr int64_t kUnit = 16;  // elements and bytes that cuBLASLt wants FP8 dimensions in

std::string refuse_rows(const char* name, const product::Operand& operand, int64_t rows,
                        int64_t columns) {
  if (operand.alignment < kUnit) {
    return fmt::format("{}: expected rows aligned to {} bytes, got rows aligned to {}", name, kUnit,
                       operand.alignment);
  }
  if (rows > 1 && operand.row_stride < columns) {
    return fmt::format("{}: expected a row stride of at least {}, got {}", name, columns,
                       operand.row_stride);
  }
  return {};
}

}  // namespace

std::string refuse_shape(const product::Problem& p) {
  if (p.device.type != DeviceType::cuda) return "a: expected memory of a GPU, got cpu";
  if (p.grouping != product::Grouping::none) return "b: expected one matrix, got experts";
  for (const auto& [name, size] : {std::pair{"m", p.m}, std::pair{"n", p.n}, std::pair{"k", p.k}}) {
    if (size == 0) return fmt::format("{}: expected at least 1, got 0", name);
  }
  return {};
}

std::string refuse_codes(const product::Problem& p) {
  for (const auto& [name, size] : {std::pair{"n", p.n}, std::pair{"k", p.k}}) {
    if (size % kUnit != 0) {
      return fmt::format("{}: expected a multiple of {}, got {}", name, kUnit, size);
    }
  }
  if (std::string wrong = refuse_rows("a", p.a, p.m, p.k); !wrong.empty()) return wrong;
  return refuse_rows("b", p.b, p.n, p.k);
}

int architecture_of(Device device) {
  int major = 0;
  int minor = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index) !=
          cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index) !=
          cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return 10 * major + minor;
}

LtMatrix lt_matrix(const product::Operand& operand) {
  return {operand.dtype, operand.row_stride, operand.alignment};
}

LtProblem lt_problem(const product::Problem& p, const MatmulOptions& options) {
  LtProblem lt;
  lt.m = p.m;
  lt.n = p.n;
  lt.k = p.k;
  lt.a = lt_matrix(p.a);
  lt.b = lt_matrix(p.b);
  lt.out = lt_matrix(p.out);
  lt.accumulation = options.accumulation;
  lt.batch_invariance = options.batch_invariance;
  lt.device = p.device.index;
  return lt;
}

}  // namespace rowscale::cuda
