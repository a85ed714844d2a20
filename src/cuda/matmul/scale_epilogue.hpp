// Sums of products to results, as the host calls it: D = cast((sum * scale_a) * scale_b + bias).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/device/launcher.hpp"
#include "matmul/problem.hpp"
#include "plan/scale_view.hpp"
#include "rowscale/matmul.hpp"
#include "rowscale/types.hpp"

namespace rowscale::cuda {

// Whether the sums are still to be multiplied by scales: one an operand or one a row of it.
enum class EpilogueScales { none, both };

struct ScaleEpilogueCall {
  const float* sums = nullptr;  // [m, n], rows at a multiple of kSumChunk
  int64_t sum_stride = 0;       // floats
  int64_t m = 0;
  int64_t n = 0;
  EpilogueScales scales = EpilogueScales::none;
  plan::ScaleView scale_a;
  plan::ScaleView scale_b;
  int64_t step_a = 0;  // scales from a row to the next: 0 or 1
  int64_t step_b = 0;
  const void* bias = nullptr;
  DType bias_dtype = DType::f32;
  void* out = nullptr;
  int64_t out_stride = 0;  // elements
  DType out_dtype = DType::bf16;
};

inline constexpr int64_t kSumChunk = 8;  // floats that a thread reads side by side

// The row stride of sums for n columns.
constexpr int64_t sum_stride_for(int64_t n) {
  return (n + kSumChunk - 1) / kSumChunk * kSumChunk;
}

ScaleEpilogueCall scale_epilogue_call(const product::Problem& problem, const MatmulTensors& tensors,
                                      const float* sums, EpilogueScales scales);

// `how`: its stream and dependence; blocks and threads are set here.
cudaError_t launch_scale_epilogue(const ScaleEpilogueCall& call, Launch how);

// The address of a 1.0F on the current device: a scale for what has none.
cudaError_t find_one(const float** one);

}  // namespace rowscale::cuda
