// RMSNorm of any row, with scales of any recipe: a block of threads for a row, which is read once
// for its sum and then as often as its scales ask for.
#pragma once

#include "cuda/device/tree_sum.cuh"
#include "cuda/kernel/quantize_given.cuh"
#include "cuda/stage/norm.cuh"

namespace rowscale::cuda {

// What else a norm's call says: whether there are codes, and whose scales they take.
enum class NormScales { none, given, dynamic };

// The row of a block: its elements, for a factor.
template <class T, class Access>
class FactoredRow {
 public:
  using Source = NormRows<T, Access>;
  using Index = typename Access::Index;

  __device__ FactoredRow(const Source& source, Index row) : source_(source), row_(row) {}

  // The sum of a chunk's squares. The residual takes its sum, unless that is normed unrounded.
  __device__ __forceinline__ float add_up(Index column, Index count) const {
    if (source_.sums_unrounded()) return sum_of_squares(unrounded(column, count).v);
    typename Source::Chunk z = source_.x(row_, column, count);
    if (source_.has_residual()) {
      z = Source::sum(z, source_.residual(row_, column, count));
      source_.store_residual(row_, column, count, z);
    }
    float v[plan::kChunk];
    Source::values(z, v);
    return sum_of_squares(v);
  }
  __device__ __forceinline__ void set_factor(float factor) { factor_ = factor; }

  // A chunk from any column.
  __device__ __noinline__ typename Source::Chunk chunk(Index column, Index count) const {
    float v[plan::kChunk];
    if (source_.sums_unrounded()) {
      const FloatChunk z = unrounded(column, count);
      Held<float>::values(z, v);
    } else {
      Source::values(source_.has_residual() ? source_.residual(row_, column, count)
                                            : source_.x(row_, column, count),
                     v);
    }
#pragma unroll
    for (int i = 0; i < plan::kChunk; ++i) {
      v[i] = i < count ? source_.element(v[i], factor_, source_.weight(column + i)) : 0.0F;
    }
    return Held<T>::round(v);
  }
  // After the last look at a chunk whose sum is normed unrounded: the residual's turn.
  __device__ __forceinline__ void finish(Index column, Index count) const {
    if (!source_.sums_unrounded()) return;
    source_.store_residual(row_, column, count, Held<T>::round(unrounded(column, count).v));
  }
  __device__ __forceinline__ void keep(Index column, Index count,
                                       const typename Source::Chunk& chunk) const {
    if (source_.is_kept()) source_.keep(row_, column, count, chunk);
  }

 private:
  // x + residual in fp32.
  __device__ __noinline__ FloatChunk unrounded(Index column, Index count) const {
    FloatChunk z;
    float residual[plan::kChunk];
    Source::values(source_.x(row_, column, count), z.v);
    Source::values(source_.residual(row_, column, count), residual);
#pragma unroll
    for (int i = 0; i < plan::kChunk; ++i) z.v[i] = numerics::add(z.v[i], residual[i]);
    return z;
  }

  const Source& source_;
  Index row_;
  float factor_ = 0.0F;
};

template <class T, class Access>
struct NormAnyArguments {
  using Source = NormRows<T, Access>;
  ElementwiseArguments<Source, GeneralScales> a;
  NormScales scales;

  explicit NormAnyArguments(const QuantizeCall& call) : a(call), scales(scales_of(call)) {}

 private:
  static NormScales scales_of(const QuantizeCall& call) {
    if (call.scales == nullptr) return NormScales::none;
    return call.recipe.scale_source == ScaleSource::given ? NormScales::given : NormScales::dynamic;
  }
};

struct NormAnyShared {
  FactorScratch<plan::kNormAnyThreads> factor;
  float amax[32];
};

// One row, which exists.
template <class T, class Access, class Codec>
__device__ __forceinline__ void norm_any_row(const NormAnyArguments<T, Access>& arguments,
                                             typename Access::Index row_index,
                                             NormAnyShared& shared) {
  using Source = NormRows<T, Access>;
  using Index = typename Access::Index;
  constexpr int kThreads = plan::kNormAnyThreads;
  const auto& call = arguments.a.call;
  const auto at = call.rows.place(row_index);
  FactoredRow<T, Access> row(call.source, row_index);
  const auto thread = thread_index<Index>();

  // Norm
  float sum = 0.0F;  // of a lane of the tree
  for (Index column = thread * plan::kChunk; column < call.columns;
       column += kThreads * plan::kChunk) {
    sum = numerics::add(sum, row.add_up(column, call.columns - column));
  }
  static_assert(kThreads == numerics::kTreeLanes);
  shared.factor.chunks[thread] = sum;
  row.set_factor(
      factor_of_block(shared.factor, [&](float all) { return call.source.factor(all); }));

  if (arguments.scales != NormScales::dynamic) {
    for (Index column = thread * plan::kChunk; column < call.columns;
         column += kThreads * plan::kChunk) {
      const Index count = call.columns - column;
      const auto chunk = row.chunk(column, count);
      row.keep(column, count, chunk);
      if (arguments.scales == NormScales::given) {
        arguments.a.template store_given<Codec>(chunk, {row_index, column, count});
      }
    }
    return;
  }

  // Unit by unit: the lanes of a warp for one where there are many, else the whole block.
  const Index units = call.units_in_row.divisor();
  const bool is_many = units >= kThreads / 32;
  const Index threads = is_many ? 32 : kThreads;
  const Index lane = thread % threads;
  for (Index unit = thread / threads; unit < units; unit += kThreads / threads) {
    const Index begin = unit * call.unit_columns;
    const Index end =
        call.columns - begin < call.unit_columns ? call.columns : begin + call.unit_columns;
    const Index first = begin + lane * plan::kChunk;
    typename Source::Amax amax;
    for (Index column = first; column < end; column += threads * plan::kChunk) {
      const auto chunk = row.chunk(column, end - column);
      row.keep(column, end - column, chunk);
      amax.raise(chunk);
    }
    const float most =
        is_many ? max_of_lanes<32>(amax.value()) : max_of_block(amax.value(), shared.amax);
    const Divisor divisor = call.rule.divisor(most);
    for (Index column = first; column < end; column += threads * plan::kChunk) {
      call.template store_chunk<Codec>(row.chunk(column, end - column), divisor,
                                       {row_index, column, end - column});
      row.finish(column, end - column);
    }
    if (lane == 0) call.store_scale(divisor, {at.batch, at.row, unit, true});
    if (!is_many) __syncthreads();  // shared.amax is used again
  }
}

template <class T, class Access, class Codec>
__global__ void __launch_bounds__(plan::kNormAnyThreads)
    norm_any(const __grid_constant__ NormAnyArguments<T, Access> arguments) {
  __shared__ NormAnyShared shared;
  begin_kernel();
  const auto row = block_index<typename Access::Index>();
  const auto& rows = arguments.a.call.rows;
  if (!rows.exists(rows.place(row))) return;
  norm_any_row<T, Access, Codec>(arguments, row, shared);
}

}  // namespace rowscale::cuda
