// The kernel for few rows of A, as the host sees it: its shapes, its argument and its launch.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/matmul/expert_tiles.cuh"
#include "matmul/problem.hpp"
#include "rowscale/exec.hpp"
#include "rowscale/types.hpp"

namespace rowscale::cuda {

inline constexpr int kSmallMBlockK = 128;  // bytes of a row that one stage holds

// What selects a kernel.
struct SmallMKey {
  int rows = 64;   // of weights in a tile: 64 or 128
  int tokens = 8;  // in a tile: 8, 16, 32 or 64
  product::Scaling scaling = product::Scaling::vector;
  DType weights = DType::e4m3;
  DType a = DType::e4m3;
};

struct SmallMScales {
  const float* data = nullptr;
  product::ScaleSteps steps;
};

struct SmallMCall {
  int32_t split = 1;  // blocks of a cluster
  int64_t n = 0;
  int64_t m = 0;  // of one expert where rows are masked
  product::Grouping grouping = product::Grouping::none;
  ExpertRows experts;  // unless grouping is none
  int32_t stages = 0;
  int32_t rank_blocks = 0;   // blocks of k of every rank of a cluster,
  int32_t extra_blocks = 0;  // and one more of the first ranks
  SmallMScales scale_a;
  SmallMScales scale_b;
  const void* bias = nullptr;
  DType bias_dtype = DType::f32;
  DType out_dtype = DType::bf16;
  void* out = nullptr;
  int64_t out_row_stride = 0;    // elements
  int64_t out_batch_stride = 0;  // elements, masked
};

struct SmallMLaunch {
  int64_t row_tiles = 0;  // times the call's split: 1, 2, 4 or 8
  int64_t column_tiles = 0;
  cudaStream_t stream = nullptr;
  DependentLaunch dependent = DependentLaunch::off;
};

struct SmallMKernel {
  int depth_groups = 0;  // the number of stages is a multiple
  int (*shared_bytes)(int stages) = nullptr;
  // Of the current device, once before a launch: lets blocks have the shared memory they need.
  cudaError_t (*prepare)() = nullptr;
  cudaError_t (*launch)(const CUtensorMap& weights, const CUtensorMap& tokens,
                        const SmallMCall& call, const SmallMLaunch& launch) = nullptr;
};

inline constexpr int kSmallMMostStages = 16;
// What a block of sm_90 can have, less the barriers and the scales beside the ring.
inline constexpr int kSmallMMostShared = 224 * 1024;

const SmallMKernel& small_m_kernel_of(const SmallMKey& key);

}  // namespace rowscale::cuda
