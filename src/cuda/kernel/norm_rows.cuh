// RMSNorm of rows that stay in registers: a block of kThreads threads for one, kChunks chunks each.
#pragma once

#include "cuda/device/tree_sum.cuh"
#include "cuda/kernel/arguments.cuh"
#include "cuda/stage/norm.cuh"

namespace rowscale::cuda {

template <class Source, class Scales, class Codec, plan::NormUnit kUnit,
          plan::NormResidual kResidual, int kThreads, int kChunks>
struct NormRow {
  using Arguments = QuantizeArguments<Source, Scales>;
  using Chunk = typename Source::Chunk;
  static constexpr int kStep = kThreads * plan::kChunk;
  static constexpr int kGroupLanes = plan::kNormGroup / plan::kChunk;

  struct Shared {
    TreeScratch<kThreads, kChunks> tree;
    float amax[32];
  };

  // All of one row.
  static __device__ __forceinline__ void run(const Arguments& call, int32_t row, Shared& shared) {
    const int32_t first = static_cast<int32_t>(threadIdx.x) * plan::kChunk;
    // Chunks beyond the row take no time where no thread has one.
    const auto is_there = [&](int k) { return k == 0 || k * kStep < call.columns; };
    const auto place = [&](int k) {
      const int32_t column = first + k * kStep;
      return typename Arguments::Place{row, column, call.columns - column};
    };

    // Load
    Chunk chunk[kChunks];
    load(call, is_there, place, chunk);

    // Norm
    float sums[kChunks];
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      sums[k] = 0.0F;
      if (!is_there(k)) continue;
      float z[plan::kChunk];
      Source::values(chunk[k], z);
      sums[k] = sum_of_squares(z);
    }
    const float factor = call.source.factor(tree_sum<kThreads>(sums, shared.tree));
    norm(call, is_there, place, factor, chunk);

    // Scale, encode and store
    if constexpr (kUnit == plan::NormUnit::row) {
      typename Source::Amax amax;
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        if (is_there(k)) amax.raise(chunk[k]);
      }
      const Divisor divisor = call.rule.divisor(max_of_block(amax.value(), shared.amax));
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        if (is_there(k)) call.template store_held<Codec>(chunk[k], divisor, place(k));
      }
      if (threadIdx.x == 0) call.store_held_scale(divisor, {0, row, 0, true});
    } else if constexpr (kUnit == plan::NormUnit::group) {
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        if (!is_there(k)) continue;
        typename Source::Amax amax;
        amax.raise(chunk[k]);
        const Divisor divisor = call.rule.divisor(max_of_lanes<kGroupLanes>(amax.value()));
        const auto at = place(k);
        call.template store_held<Codec>(chunk[k], divisor, at);
        if (threadIdx.x % kGroupLanes == 0 && at.count > 0) {
          call.store_held_scale(divisor, {0, row, at.column / plan::kNormGroup, true});
        }
      }
    } else if constexpr (kUnit == plan::NormUnit::given) {
      const Divisor divisor = call.rule.divisor_of_given(call.scales.load(0, 0, 0));
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        if (is_there(k)) call.template store_held<Codec>(chunk[k], divisor, place(k));
      }
    }
  }

 private:
  template <class IsThere, class PlaceOf>
  static __device__ __forceinline__ void load(const Arguments& call, const IsThere& is_there,
                                              const PlaceOf& place, Chunk (&z)[kChunks]) {
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const auto at = place(k);
      if (is_there(k)) z[k] = call.source.x(at.row, at.column, at.count);
    }
    if constexpr (kResidual == plan::NormResidual::added) {
      Chunk residual[kChunks];
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        const auto at = place(k);
        if (is_there(k)) residual[k] = call.source.residual(at.row, at.column, at.count);
      }
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        const auto at = place(k);
        if (!is_there(k)) continue;
        z[k] = Source::sum(z[k], residual[k]);
        call.source.store_residual(at.row, at.column, at.count, z[k]);
      }
    }
  }

  template <class IsThere, class PlaceOf>
  static __device__ __forceinline__ void norm(const Arguments& call, const IsThere& is_there,
                                              const PlaceOf& place, float factor,
                                              Chunk (&chunk)[kChunks]) {
    const auto weight = [&](int k) {
      const auto at = place(k);
      // Beyond the row lie zeros, which stay 0 or become NaN and raise no amax by any weight.
      return call.source.weight_words(at.count > 0 ? at.column : 0);
    };
    if (call.source.form() == NormForm::standard) {
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        if (is_there(k)) chunk[k] = Source::standard(chunk[k], factor, weight(k));
      }
    } else {
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        if (is_there(k)) chunk[k] = Source::gemma(chunk[k], factor, weight(k));
      }
    }
    if (call.source.is_kept()) {
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        const auto at = place(k);
        if (is_there(k)) call.source.keep(at.row, at.column, at.count, chunk[k]);
      }
    }
  }
};

template <class Source, class Scales, class Codec, plan::NormUnit kUnit,
          plan::NormResidual kResidual, int kThreads, int kChunks>
__global__ void __launch_bounds__(kThreads)
    norm_rows(const __grid_constant__ QuantizeArguments<Source, Scales> call) {
  using Row = NormRow<Source, Scales, Codec, kUnit, kResidual, kThreads, kChunks>;
  __shared__ typename Row::Shared shared;
  begin_kernel();
  Row::run(call, block_index<int32_t>(), shared);
}

}  // namespace rowscale::cuda
