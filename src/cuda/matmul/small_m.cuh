// A product with few rows of A: every weight is read once, at the speed of memory.
//
// The tensor cores take 64 rows of their first operand at a time, so the weights are that operand
// and the tokens the second. A cluster of blocks shares a tile of kRows weights by kTokens tokens:
// each takes a part of k, then finishes its share of the tile, adding over the blocks in their
// order. A block's last warp lets the copy engine fill a ring of stages; its warpgroups multiply.
//
// The order of a sum depends on n, k, the number of experts and the machine: a row has the same
// bits whatever m is.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/device/barrier.cuh"
#include "cuda/device/launch.cuh"
#include "cuda/device/tensor_copy.cuh"
#include "cuda/device/tensor_cores.cuh"
#include "cuda/matmul/out_values.cuh"
#include "cuda/matmul/small_m.hpp"

namespace rowscale::cuda {

// Scales of a stage of block-scaled operands.
template <int kRows, int kTokens>
struct SmallMBlockScales {
  float tokens[kTokens];
  float weights[4];  // one for 128 rows, and pads
};
template <int kRows, int kTokens>
struct SmallMVectorScales {
  alignas(16) float weights[kRows];
  float tokens[kTokens];
};

// How the warpgroups of a block share a stage: kRowGroups times 64 weight rows, and of
// kDepthGroups each takes every kDepthGroups-th stage.
template <int kRowsOf, int kDepthGroupsOf, int kTokensOf, product::Scaling kScaling>
struct SmallMShape {
  static constexpr int kRows = kRowsOf;
  static constexpr int kRowGroups = kRows / 64;
  static constexpr int kDepthGroups = kDepthGroupsOf;
  static constexpr int kTokens = kTokensOf;
  static constexpr int kProducts = 128 * kRowGroups * kDepthGroups;  // threads that multiply
  static constexpr int kThreads = kProducts + 32;
  static constexpr int kPitch = kRows + 4;  // of sums in shared memory: no two lanes share a bank
  static constexpr int kSums = kTokens * kPitch;  // floats, of a depth group
  static constexpr int kStageBytes = (kRows + kTokens) * kSmallMBlockK;
  static constexpr bool kBlockScales = kScaling == product::Scaling::block;
  static constexpr int kScaleBytes =
      kBlockScales ? int{sizeof(SmallMBlockScales<kRows, kTokens>)} : 0;
  static constexpr int kSumBytes = kDepthGroups * kSums * 4;
  // 1024 more, to begin at a multiple of it.
  static constexpr int shared_bytes(int stages) {
    return 1024 + stages * (kStageBytes + kScaleBytes) + kSumBytes;
  }
};

// Where a block stands: rows of a and out in the batch, and whose weights they meet.
struct SmallMTile {
  int64_t first_token = 0;
  int tokens = 0;  // 0: nothing to do
  int64_t first_row = 0;
  int batch = 0;   // of a and out
  int expert = 0;  // of the weights
};

template <class Shape>
__device__ __forceinline__ SmallMTile small_m_tile(const SmallMCall& call) {
  SmallMTile tile;
  const uint32_t number = blockIdx.x >> (__ffs(call.split) - 1);  // a power of two
  tile.first_row = int64_t{blockIdx.y} * Shape::kRows;
  if (call.grouping == product::Grouping::none) {
    tile.first_token = int64_t{number} * Shape::kTokens;
    tile.tokens = static_cast<int>(min(int64_t{Shape::kTokens}, call.m - tile.first_token));
    return tile;
  }
  const RowTile found = ExpertTiles<Shape::kTokens>(call.experts).find_tile(number);
  tile.first_token = found.first_row;
  tile.tokens = found.rows;
  tile.expert = static_cast<int>(found.expert);
  tile.batch = call.grouping == product::Grouping::masked ? tile.expert : 0;
  return tile;
}

template <class Shape, class WeightFormat, class TokenFormat>
__global__ void __launch_bounds__(Shape::kThreads)
    small_m_kernel(const __grid_constant__ CUtensorMap weight_map,
                   const __grid_constant__ CUtensorMap token_map,
                   const __grid_constant__ SmallMCall call) {
  constexpr int kRows = Shape::kRows;
  constexpr int kTokens = Shape::kTokens;
  constexpr bool kBlockScales = Shape::kBlockScales;
  extern __shared__ uint8_t raw[];
  __shared__ Barrier full[kSmallMMostStages];
  __shared__ Barrier empty[kSmallMMostStages];
  __shared__ alignas(16) SmallMVectorScales<kRows, kTokens> vectors;
  uint8_t* const ring = raw + (1024 - shared_address(raw) % 1024) % 1024;

  begin_kernel();
  const int split = call.split;
  const int rank = static_cast<int>(blockIdx.x) & (split - 1);
  const SmallMTile tile = small_m_tile<Shape>(call);
  if (tile.tokens == 0) return;  // and so does the cluster

  const int stages = call.stages;
  const int first_block = rank * call.rank_blocks + min(rank, call.extra_blocks);
  const int turns = call.rank_blocks + (rank < call.extra_blocks ? 1 : 0);
  float* const tile_sums = reinterpret_cast<float*>(ring + stages * Shape::kStageBytes);
  auto* const scales = reinterpret_cast<SmallMBlockScales<kRows, kTokens>*>(
      ring + stages * Shape::kStageBytes + Shape::kSumBytes);
  const bool is_loader = threadIdx.x >= Shape::kProducts;
  const int lane = threadIdx.x % 32;

  const uint64_t once = cache_policy(Reuse::once);
  const uint64_t many = cache_policy(Reuse::many);
  const auto load = [&](int turn, int stage) {
    const int block = first_block + turn;
    uint8_t* const weights = ring + stage * Shape::kStageBytes;
    if (lane == 0) {
      full[stage].arrive_and_expect(Shape::kStageBytes);
      copy_tile(weights, &weight_map, &full[stage], block * kSmallMBlockK,
                static_cast<int>(tile.first_row), tile.expert, once);
      copy_tile(weights + kRows * kSmallMBlockK, &token_map, &full[stage], block * kSmallMBlockK,
                static_cast<int>(tile.first_token), tile.batch, many);
    }
    if constexpr (kBlockScales) {
      const product::ScaleSteps& a = call.scale_a.steps;
      const product::ScaleSteps& b = call.scale_b.steps;
      for (int token = lane; token < kTokens; token += 32) {
        const int64_t at =
            tile.batch * a.batch + (tile.first_token + token) * a.row + block * a.group;
        copy_float(&scales[stage].tokens[token], call.scale_a.data + at, token < tile.tokens);
      }
      if (lane < (kRows + 127) / 128) {
        const int64_t row = tile.first_row / kSmallMBlockK + lane;
        const int64_t at = tile.expert * b.batch + row * b.row + block * b.group;
        copy_float(&scales[stage].weights[lane], call.scale_b.data + at,
                   row * kSmallMBlockK < call.n);
      }
      full[stage].arrive_after_copies();
    }
  };

  int loaded = 0;
  if (is_loader) {
    if (lane == 0) {
      for (int i = 0; i < stages; ++i) {
        full[i].init(1 + (kBlockScales ? 32 : 0));
        empty[i].init(Shape::kRowGroups * 4);
      }
      publish_barriers_to_copies();
    }
    __syncwarp();
    for (; loaded < min(turns, stages); ++loaded) load(loaded, loaded);
    __syncwarp();
  } else if constexpr (!kBlockScales) {
    for (int i = threadIdx.x; i < kRows; i += Shape::kProducts) {
      copy_float(&vectors.weights[i],
                 call.scale_b.data + tile.expert * call.scale_b.steps.batch +
                     (tile.first_row + i) * call.scale_b.steps.row,
                 tile.first_row + i < call.n);
    }
    for (int i = threadIdx.x; i < kTokens; i += Shape::kProducts) {
      copy_float(&vectors.tokens[i],
                 call.scale_a.data + tile.batch * call.scale_a.steps.batch +
                     (tile.first_token + i) * call.scale_a.steps.row,
                 i < tile.tokens);
    }
  }
  __syncthreads();

  if (is_loader) {
    uint32_t parity = 0;
    int stage = 0;
    for (; loaded < turns; ++loaded) {
      empty[stage].wait(parity);
      load(loaded, stage);
      if (++stage == stages) stage = 0, parity ^= 1;
    }
    __syncwarp();
  } else {
    constexpr int kSums = kTokens / 2;
    const int thread = threadIdx.x;
    const int group = thread / 128;
    const int row_group = group % Shape::kRowGroups;
    const int depth_group = group / Shape::kRowGroups;
    float total[kSums];
#pragma unroll
    for (float& sum : total) sum = 0.0F;
    uint32_t parity = 0;
    int stage =
        depth_group;  // a stage belongs to one depth group: their number divides that of stages
    for (int turn = depth_group; turn < turns; turn += Shape::kDepthGroups) {
      full[stage].wait(parity);
      const uint32_t weights = shared_address(ring + stage * Shape::kStageBytes);
      const uint64_t rows = tile_descriptor(weights + row_group * 64 * kSmallMBlockK);
      const uint64_t columns = tile_descriptor(weights + kRows * kSmallMBlockK);
      float sums[kSums];
      begin_products();
#pragma unroll
      for (int step = 0; step < kSmallMBlockK / 32; ++step) {
        multiply<WeightFormat, TokenFormat>(sums, rows + step * kDescriptorStep,
                                            columns + step * kDescriptorStep,
                                            step == 0 ? Sums::begun : Sums::continued);
      }
      end_products();
      wait_for_products<0>(sums);
      if constexpr (kBlockScales) {
        const float weight_scale = scales[stage].weights[row_group / 2];
#pragma unroll
        for (int j = 0; j < kTokens / 8; ++j) {
          const float2 token_scale =
              *reinterpret_cast<const float2*>(&scales[stage].tokens[8 * j + threadIdx.x % 4 * 2]);
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            float& even = total[4 * j + 2 * h];
            float& odd = total[4 * j + 2 * h + 1];
            even = __fmaf_rn(sums[4 * j + 2 * h] * token_scale.x, weight_scale, even);
            odd = __fmaf_rn(sums[4 * j + 2 * h + 1] * token_scale.y, weight_scale, odd);
          }
        }
      } else {
#pragma unroll
        for (int i = 0; i < kSums; ++i) total[i] += sums[i];
      }
      __syncwarp();
      if (lane == 0) empty[stage].arrive();
      stage += Shape::kDepthGroups;
      if (stage >= stages) stage -= stages, parity ^= 1;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");

    float* const mine = tile_sums + depth_group * Shape::kSums;
    const int row = row_group * 64 + thread % 128 / 32 * 16 + thread % 32 / 4;
    {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        const int token = i / 4 * 8 + thread % 4 * 2 + i % 2;
        mine[token * Shape::kPitch + row + i / 2 % 2 * 8] = total[i];
      }
    }
  }
  if (split > 1) {
    cluster_barrier();
  } else {
    __syncthreads();
  }

  // Four neighbouring rows a unit, units of a token side by side, dealt to the ranks in turn.
  constexpr int kUnitsPerToken = kRows / 4;
  const int units = tile.tokens * kUnitsPerToken;
  for (int unit = rank * Shape::kThreads + threadIdx.x; unit < units;
       unit += split * Shape::kThreads) {
    const int token = unit / kUnitsPerToken;
    const int row = unit % kUnitsPerToken * 4;
    const float* const from = tile_sums + token * Shape::kPitch + row;
    float v[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    const auto add = [&](const float4& sum) {
      v[0] += sum.x, v[1] += sum.y, v[2] += sum.z, v[3] += sum.w;
    };
    if (split == 1) {
#pragma unroll
      for (int part = 0; part < Shape::kDepthGroups; ++part) {
        add(*reinterpret_cast<const float4*>(from + part * Shape::kSums));
      }
    } else {
      for (int other = 0; other < split; other += 2) {
        float4 sums[2 * Shape::kDepthGroups];
#pragma unroll
        for (int part = 0; part < 2 * Shape::kDepthGroups; ++part) {
          sums[part] = load_from_rank(from + part % Shape::kDepthGroups * Shape::kSums,
                                      other + part / Shape::kDepthGroups);
        }
#pragma unroll
        for (const float4& sum : sums) add(sum);
      }
    }
    const int64_t n0 = tile.first_row + row;
    const int64_t m0 = tile.first_token + token;
    if constexpr (!kBlockScales) {
      const float token_scale = vectors.tokens[token];
      const float4 w = *reinterpret_cast<const float4*>(&vectors.weights[row]);
      v[0] = v[0] * token_scale * w.x, v[1] = v[1] * token_scale * w.y;
      v[2] = v[2] * token_scale * w.z, v[3] = v[3] * token_scale * w.w;
    }
    if (call.bias != nullptr) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (n0 + i < call.n) {
          v[i] += load_any(call.bias, n0 + i, call.bias_dtype);
        }
      }
    }
    const int64_t at = tile.batch * call.out_batch_stride + m0 * call.out_row_stride + n0;
    store_four(call.out, at, call.out_dtype, v, call.n - n0);
  }
  // Nobody leaves while its sums are read.
  if (split > 1) cluster_barrier();
}

}  // namespace rowscale::cuda
