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

  // The sum of a chunk's squares; the residual takes its sum.
  __device__ __forceinline__ float add_up(Index column, Index count) const {
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
    const auto z = source_.has_residual() ? source_.residual(row_, column, count)
                                          : source_.x(row_, column, count);
    float v[plan::kChunk];
    Source::values(z, v);
#pragma unroll
    for (int i = 0; i < plan::kChunk; ++i) {
      v[i] = i < count ? source_.element(v[i], factor_, source_.weight(column + i)) : 0.0F;
    }
    return Held<T>::round(v);
  }
  __device__ __forceinline__ void keep(Index column, Index count,
                                       const typename Source::Chunk& chunk) const {
    if (source_.is_kept()) source_.keep(row_, column, count, chunk);
  }

 private:
  const Source& source_;
  Index row_;
  float factor_ = 0.0F;
};

template <class T, class Access>
struct NormAnyArguments {
  using Source = NormRows<T, Access>;
  ElementwiseArguments<Source, GeneralScales> a;
  NormScales scales;

  NormAnyArguments(const QuantizeCall& call, NormScales norm_scales)
      : a(call), scales(norm_scales) {}
};

template <class T, class Access, class Codec>
__global__ void __launch_bounds__(plan::kNormAnyThreads)
    norm_any(const __grid_constant__ NormAnyArguments<T, Access> arguments) {
  using Source = NormRows<T, Access>;
  using Index = typename Access::Index;
  constexpr int kThreads = plan::kNormAnyThreads;
  __shared__ FactorScratch<kThreads> shared;
  __shared__ float scratch[32];
  const auto& call = arguments.a.call;
  begin_kernel();
  const Index row_index = block_index<Index>();
  const auto at = call.rows.place(row_index);
  if (!call.rows.exists(at)) return;
  FactoredRow<T, Access> row(call.source, row_index);
  const auto thread = thread_index<Index>();

  // Norm
  float lane = 0.0F;  // of the tree
  for (Index column = thread * plan::kChunk; column < call.columns;
       column += kThreads * plan::kChunk) {
    lane = numerics::add(lane, row.add_up(column, call.columns - column));
  }
  static_assert(kThreads == numerics::kTreeLanes);
  shared.chunks[thread] = lane;
  row.set_factor(factor_of_block(shared, [&](float sum) { return call.source.factor(sum); }));

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
        is_many ? max_of_lanes<32>(amax.value()) : max_of_block(amax.value(), scratch);
    const Divisor divisor = call.rule.divisor(most);
    for (Index column = first; column < end; column += threads * plan::kChunk) {
      call.template store_chunk<Codec>(row.chunk(column, end - column), divisor,
                                       {row_index, column, end - column});
    }
    if (lane == 0) call.store_scale(divisor, {at.batch, at.row, unit, true});
    if (!is_many) __syncthreads();  // scratch is used again
  }
}

}  // namespace rowscale::cuda
