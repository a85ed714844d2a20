// RMSNorm of rows that stay in registers: a block of kThreads threads for a row at a time, kChunks
// chunks each. While a row is normed, the next one of the block is on its way.
#pragma once

#include "cuda/device/tree_sum.cuh"
#include "cuda/kernel/arguments.cuh"
#include "cuda/stage/norm.cuh"

namespace rowscale::cuda {

template <class Source, class Scales, class Codec, plan::NormUnit kUnit,
          plan::NormResidual kResidual, int kThreads, int kChunks>
class NormBlock {
 public:
  using Arguments = QuantizeArguments<Source, Scales>;

  struct Shared {
    FactorScratch<kThreads * kChunks> factor;
    float amax[32];
  };

  __device__ __forceinline__ NormBlock(const Arguments& call, Shared& shared)
      : call_(call), shared_(shared), first_(first_chunk()) {
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      exists_[k] = (first_ + ahead(k)) * plan::kChunk < call.columns;
      // Beyond the row lie zeros, which stay 0 or become NaN and raise no amax by any weight.
      weight_[k] = call.source.weight_words(exists_[k] ? (first_ + ahead(k)) * plan::kChunk : 0);
    }
  }

  // The rows first, first + step, ... of the call.
  __device__ __forceinline__ void run(int32_t first, int32_t step, int32_t rows) {
    fetch(first);
    for (int32_t row = first; row < rows; row += step) {
      // Sum
      add_residual(row);
      Chunk chunk[kChunks];
#pragma unroll
      for (int k = 0; k < kChunks; ++k) chunk[k] = fetched_[k];
      if (row + step < rows) fetch(row + step);
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        float sum = 0.0F;
        if (is_there(k)) {
          float z[plan::kChunk];
          Source::values(chunk[k], z);
          sum = sum_of_squares(z);
        }
        shared_.factor.chunks[first_ + ahead(k)] = sum;
      }
      const float factor =
          factor_of_block(shared_.factor, [&](float sum) { return call_.source.factor(sum); });

      // Norm
      call_.source.norm(
          factor, chunk, [this](int k) { return is_there(k); },
          [this](int k) { return weight_[k]; });
      if (call_.source.is_kept()) keep(row, chunk);

      // Scale, encode and store
      if constexpr (kUnit == plan::NormUnit::row) {
        store_row(row, chunk);
      } else if constexpr (kUnit == plan::NormUnit::group) {
#pragma unroll
        for (int k = 0; k < kChunks; k += kBeside) store_group(row, k, chunk);
      } else if constexpr (kUnit == plan::NormUnit::given) {
        const Divisor divisor = call_.rule.divisor_of_given(call_.scales.load(0, 0, 0));
#pragma unroll
        for (int k = 0; k < kChunks; ++k) store(row, k, chunk[k], divisor);
      }
    }
  }

 private:
  using Chunk = typename Source::Chunk;
  // A thread has one chunk of a group, or two: what is done once a group is then done by half as
  // many threads.
  static constexpr int kBeside = kChunks == 1 ? 1 : 2;
  static constexpr int kGroupLanes = plan::kNormGroup / plan::kChunk / kBeside;
  static constexpr int kChunkBytes = sizeof(Chunk);
  static_assert(kChunks % kBeside == 0 && kChunkBytes == 16);

  // Of the row: this thread's first chunk, and how far the k-th one lies ahead of it.
  static __device__ __forceinline__ int32_t first_chunk() {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    return thread / kGroupLanes * (kGroupLanes * kBeside) + thread % kGroupLanes;
  }
  static constexpr __device__ int ahead(int k) {
    return k % kBeside * kGroupLanes + k / kBeside * (kThreads * kBeside);
  }
  // Whether a thread of the warp has a k-th chunk: warps without one take no time.
  __device__ __forceinline__ bool is_there(int k) const {
    const auto warp = static_cast<int32_t>(threadIdx.x / 32 * 32);
    return (warp + k / kBeside * kThreads) * (kBeside * plan::kChunk) < call_.columns;
  }
  __device__ __forceinline__ std::byte* at(std::byte* row) const {
    return row + static_cast<uint32_t>(first_ * kChunkBytes);
  }

  // Into fetched_ and residual_.
  __device__ __forceinline__ void fetch(int32_t row) {
    const std::byte* const x = at(call_.source.x_rows().begin(row));
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      fetched_[k] =
          load_words<kChunkBytes>(x + ahead(k) * kChunkBytes, exists_[k], plan::GpuLoads::cached);
    }
    if constexpr (kResidual == plan::NormResidual::added) {
      const std::byte* const residual = at(call_.source.residual_rows().begin(row));
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        residual_[k] = load_words<kChunkBytes>(residual + ahead(k) * kChunkBytes, exists_[k],
                                               plan::GpuLoads::cached);
      }
    }
  }
  __device__ __forceinline__ void add_residual(int32_t row) {
    if constexpr (kResidual == plan::NormResidual::added) {
      std::byte* const residual = at(call_.source.residual_rows().begin(row));
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        fetched_[k] = Source::sum(fetched_[k], residual_[k]);
        if (exists_[k]) store_words(residual + ahead(k) * kChunkBytes, fetched_[k]);
      }
    }
  }

  __device__ __forceinline__ void keep(int32_t row, const Chunk (&chunk)[kChunks]) const {
    std::byte* const out = at(call_.source.rows_out().begin(row));
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      if (exists_[k]) store_words(out + ahead(k) * kChunkBytes, chunk[k]);
    }
  }

  __device__ __forceinline__ void store_row(int32_t row, const Chunk (&chunk)[kChunks]) const {
    typename Source::Amax amax;
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      if (is_there(k)) amax.raise(chunk[k]);
    }
    const Divisor divisor = call_.rule.divisor(max_of_block(amax.value(), shared_.amax));
#pragma unroll
    for (int k = 0; k < kChunks; ++k) store(row, k, chunk[k], divisor);
    if (threadIdx.x == 0) call_.store_held_scale(divisor, {0, row, 0, true});
  }
  // The chunks k and what lies beside it.
  __device__ __forceinline__ void store_group(int32_t row, int k,
                                              const Chunk (&chunk)[kChunks]) const {
    if (!is_there(k)) return;
    typename Source::Amax amax;
#pragma unroll
    for (int i = k; i < k + kBeside; ++i) amax.raise(chunk[i]);
    const Divisor divisor = call_.rule.divisor(max_of_lanes<kGroupLanes>(amax.value()));
#pragma unroll
    for (int i = k; i < k + kBeside; ++i) store(row, i, chunk[i], divisor);
    if (threadIdx.x % kGroupLanes == 0 && exists_[k]) {
      constexpr int kGroupChunks = plan::kNormGroup / plan::kChunk;
      call_.store_held_scale(divisor, {0, row, (first_ + ahead(k)) / kGroupChunks, true});
    }
  }
  __device__ __forceinline__ void store(int32_t row, int k, const Chunk& chunk,
                                        const Divisor& divisor) const {
    if (!is_there(k)) return;
    const int32_t column = (first_ + ahead(k)) * plan::kChunk;
    call_.template store_held<Codec>(chunk, divisor, {row, column, call_.columns - column});
  }

  const Arguments& call_;
  Shared& shared_;
  int32_t first_;
  bool exists_[kChunks];
  Words<kChunkBytes> weight_[kChunks];
  Chunk fetched_[kChunks];
  Chunk residual_[kResidual == plan::NormResidual::added ? kChunks : 1];
};

// nvcc 13.0 takes no notice of a call with braces among the launch bounds themselves.
template <int kThreads, int kChunks, plan::NormResidual kResidual>
inline constexpr int kResidentBlocks = plan::resident_blocks(plan::NormShape{kThreads, kChunks},
                                                             kResidual);

template <class Source, class Scales, class Codec, plan::NormUnit kUnit,
          plan::NormResidual kResidual, int kThreads, int kChunks>
__global__ void __launch_bounds__(kThreads, kResidentBlocks<kThreads, kChunks, kResidual>)
    norm_rows(const __grid_constant__ QuantizeArguments<Source, Scales> call) {
  using Block = NormBlock<Source, Scales, Codec, kUnit, kResidual, kThreads, kChunks>;
  __shared__ typename Block::Shared shared;
  begin_kernel();
  Block(call, shared)
      .run(block_index<int32_t>(), static_cast<int32_t>(gridDim.x), call.rows.count(0));
}

}  // namespace rowscale::cuda
