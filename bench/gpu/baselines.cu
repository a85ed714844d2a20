// What ours is measured against: the kernels that users run today, rewritten by us from
// descriptions of what they do; none of it is another project's code, and a ratio to it is a ratio
// to our rewrite. Each function launches on a stream and returns cudaGetLastError().
//
//   op        per-token-group of 128: 8 lanes x 32 bytes a group, IEEE division, 128-thread blocks
//   two_pass  per-token: one block a row, the row read twice, IEEE division
//   copy21    reads two bytes and writes one for each element, without arithmetic
//   ceiling   the same traffic by rowscale's own copy kernels (cli/gpu/ceiling_kernels.hpp)
//
// x: bf16 [tokens, hidden], contiguous, hidden a multiple of 128. codes: e4m3 of that shape.
// scales: fp32, [tokens, hidden / 128] row-major (op) or [tokens] (two_pass).
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "gpu/ceiling_kernels.hpp"

namespace {

using bf16 = __nv_bfloat16;

constexpr float kMax = 448.0F;    // of e4m3
constexpr float kFloor = 1e-10F;  // of a group's amax
constexpr int kGroup = 128;
constexpr int kValues = 16;  // that a lane holds: 32 bytes
constexpr int kLanes = kGroup / kValues;
constexpr int kGroupsOfBlock = 16;
constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

struct Values {
  alignas(16) bf16 x[kValues];
};

__device__ Values load(const bf16* from) {
  Values out;
  reinterpret_cast<uint4*>(out.x)[0] = reinterpret_cast<const uint4*>(from)[0];
  reinterpret_cast<uint4*>(out.x)[1] = reinterpret_cast<const uint4*>(from)[1];
  return out;
}

__device__ float absmax(const Values& values, float amax) {
#pragma unroll
  for (int i = 0; i < kValues; ++i) amax = fmaxf(amax, fabsf(__bfloat162float(values.x[i])));
  return amax;
}

// Which clamp comes first decides what a NaN becomes.
enum class Clamp { low_first, high_first };

template <Clamp kClamp>
__device__ void store(uint8_t* to, const Values& values, float scale) {
  uint32_t words[kValues / 4] = {};
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    const float quotient = __bfloat162float(values.x[i]) / scale;
    const float clamped = kClamp == Clamp::low_first ? fminf(fmaxf(quotient, -kMax), kMax)
                                                     : fmaxf(-kMax, fminf(quotient, kMax));
    words[i / 4] |= static_cast<uint32_t>(__nv_fp8_e4m3(clamped).__x) << (8 * (i % 4));
  }
  *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

// kGroupsX groups of a row beside each other, the rest of the block's 16 below.
template <int kGroupsX>
__global__ void op_kernel(const bf16* x, uint8_t* codes, float* scales, int groups, int tokens) {
  constexpr int kRows = kGroupsOfBlock / kGroupsX;
  const int local = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int group = static_cast<int>(blockIdx.y) * kGroupsX + local % kGroupsX;
  const int token = static_cast<int>(blockIdx.x) * kRows + local / kGroupsX;
  if (token >= tokens) return;
  const bool exists = group < groups;
  const int64_t at = (static_cast<int64_t>(token) * groups + group) * kGroup + lane * kValues;
  Values values = {};
  float amax = kFloor;
  if (exists) {
    values = load(x + at);
    amax = absmax(values, amax);
  }
  const unsigned eight = 0xFFU << (threadIdx.x & 24U);
  for (int step = kLanes / 2; step > 0; step /= 2) {
    amax = fmaxf(amax, __shfl_xor_sync(eight, amax, step));
  }
  if (!exists) return;
  const float scale = amax / kMax;
  if (lane == 0) scales[static_cast<int64_t>(token) * groups + group] = scale;
  store<Clamp::low_first>(codes + at, values, scale);
}

template <int kGroupsX>
void launch_op(const bf16* x, uint8_t* codes, float* scales, int tokens, int groups,
               cudaStream_t stream) {
  constexpr int kRows = kGroupsOfBlock / kGroupsX;
  const dim3 grid(static_cast<unsigned>((tokens + kRows - 1) / kRows),
                  static_cast<unsigned>((groups + kGroupsX - 1) / kGroupsX));
  op_kernel<kGroupsX>
      <<<grid, kGroupsOfBlock * kLanes, 0, stream>>>(x, codes, scales, groups, tokens);
}

constexpr int kRowThreads = 256;

__device__ float max_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, step));
  }
  return value;
}

__global__ void __launch_bounds__(kRowThreads, 8)
    two_pass_kernel(const bf16* x, uint8_t* codes, float* scales, int hidden) {
  __shared__ float shared[kRowThreads / 32];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * hidden;
  float amax = 0.0F;
  for (int i = static_cast<int>(threadIdx.x) * kValues; i < hidden; i += kRowThreads * kValues) {
    amax = absmax(load(x + row + i), amax);
  }
  amax = max_of_warp(amax);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = amax;
  __syncthreads();
  if (threadIdx.x < 32) {
    amax = max_of_warp(threadIdx.x < kRowThreads / 32 ? shared[threadIdx.x] : 0.0F);
    if (threadIdx.x == 0) {
      shared[0] = fmaxf(amax / kMax, 1.0F / (kMax * 512.0F));
      scales[blockIdx.x] = shared[0];
    }
  }
  __syncthreads();
  const float scale = shared[0];
  for (int i = static_cast<int>(threadIdx.x) * kValues; i < hidden; i += kRowThreads * kValues) {
    store<Clamp::high_first>(codes + row + i, load(x + row + i), scale);
  }
}

__device__ uint4 load_once(const uint4* from) {
  uint4 word;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "l"(from));
  return word;
}

__global__ void copy21_kernel(const uint4* in, uint2* out, int64_t words) {
  constexpr int kInFlight = 4;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * 256 * kInFlight + threadIdx.x;
  uint4 held[kInFlight];
#pragma unroll
  for (int u = 0; u < kInFlight; ++u) {
    if (first + u * 256 < words) held[u] = load_once(in + first + u * 256);
  }
#pragma unroll
  for (int u = 0; u < kInFlight; ++u) {
    if (first + u * 256 < words) {
      out[first + u * 256] = make_uint2(held[u].x ^ held[u].y, held[u].z ^ held[u].w);
    }
  }
}

}  // namespace

extern "C" {

int baseline_op(const void* x, void* codes, void* scales, int tokens, int hidden, void* stream) {
  const int groups = hidden / kGroup;
  const int padded = (groups + 3) / 4 * 4;
  const auto launch = padded % 16 == 0  ? launch_op<16>
                      : padded % 8 == 0 ? launch_op<8>
                                        : launch_op<4>;
  launch(static_cast<const bf16*>(x), static_cast<uint8_t*>(codes), static_cast<float*>(scales),
         tokens, groups, static_cast<cudaStream_t>(stream));
  return cudaGetLastError();
}

int baseline_two_pass(const void* x, void* codes, void* scales, int tokens, int hidden,
                      void* stream) {
  two_pass_kernel<<<tokens, kRowThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const bf16*>(x), static_cast<uint8_t*>(codes), static_cast<float*>(scales),
      hidden);
  return cudaGetLastError();
}

int baseline_copy21(const void* x, void* codes, int tokens, int hidden, void* stream) {
  const int64_t words = static_cast<int64_t>(tokens) * hidden / 8;
  copy21_kernel<<<static_cast<unsigned>((words + 1023) / 1024), 256, 0,
                  static_cast<cudaStream_t>(stream)>>>(static_cast<const uint4*>(x),
                                                       static_cast<uint2*>(codes), words);
  return cudaGetLastError();
}

int baseline_ceiling_variants() {
  return sizeof rowscale::cli::gpu::kCopyVariants / sizeof rowscale::cli::gpu::kCopyVariants[0];
}

// variant: an index of rowscale's kCopyVariants; cudaErrorInvalidValue behind the last.
int baseline_ceiling(int variant, const void* x, void* codes, int tokens, int hidden,
                     void* stream) {
  using rowscale::cli::gpu::kCopyVariants;
  if (variant < 0 || variant >= baseline_ceiling_variants()) return cudaErrorInvalidValue;
  return rowscale::cli::gpu::launch_copy({2, 1}, kCopyVariants[variant], x, codes,
                                         static_cast<int64_t>(tokens) * hidden,
                                         static_cast<cudaStream_t>(stream));
}

// A gated activation: four bytes read and one written for each element of the codes.
int baseline_gated_ceiling(int variant, const void* x, void* codes, int tokens, int hidden,
                           void* stream) {
  using rowscale::cli::gpu::kCopyVariants;
  if (variant < 0 || variant >= baseline_ceiling_variants()) return cudaErrorInvalidValue;
  return rowscale::cli::gpu::launch_copy({4, 1}, kCopyVariants[variant], x, codes,
                                         static_cast<int64_t>(tokens) * hidden,
                                         static_cast<cudaStream_t>(stream));
}

// A norm with a residual, with its row stored, or both: what is null is no part of the traffic.
int baseline_norm_ceiling(int variant, const void* x, void* residual, void* row_out, void* codes,
                          int tokens, int hidden, void* stream) {
  using rowscale::cli::gpu::FusedTraffic;
  using rowscale::cli::gpu::kCopyVariants;
  if (variant < 0 || variant >= baseline_ceiling_variants()) return cudaErrorInvalidValue;
  const FusedTraffic traffic = residual == nullptr  ? FusedTraffic::row_out
                               : row_out == nullptr ? FusedTraffic::residual
                                                    : FusedTraffic::residual_and_row_out;
  return rowscale::cli::gpu::launch_fused_copy(
      traffic, 2, kCopyVariants[variant], {x, residual, row_out, codes},
      static_cast<int64_t>(tokens) * hidden, static_cast<cudaStream_t>(stream));
}

// Reads `bytes` of zeros, so that the L2 cache holds nothing else. sink: 16 bytes.
int baseline_read(const void* in, int64_t bytes, void* sink, void* stream) {
  return rowscale::cli::gpu::launch_read(in, bytes, sink, static_cast<cudaStream_t>(stream));
}

}  // extern "C"
