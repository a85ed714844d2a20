// RMSNorm of many rows: a block has some teams, and a team takes one row after the other. Bulk
// copies bring its next rows into a ring in shared memory, so that loads in flight take no
// registers. sm_90 and newer.
#pragma once

#include "cuda/device/barrier.cuh"
#include "cuda/device/tensor_copy.cuh"
#include "cuda/device/tree_sum.cuh"
#include "cuda/kernel/arguments.cuh"
#include "cuda/stage/norm.cuh"

namespace rowscale::cuda {

template <class Source, class Scales>
struct NormTeamArguments {
  QuantizeArguments<Source, Scales> call;
  int32_t teams;  // of a block
  int32_t depth;  // rows in the ring of a team

  explicit NormTeamArguments(const QuantizeCall& quantize)
      : call(quantize), teams(quantize.teams), depth(quantize.depth) {}
};

// What a thread does as one of its team. kRounds: of the tree that sums a row.
template <class Source, class Scales, class Codec, plan::NormUnit kUnit, int kRounds>
class NormTeam {
 public:
  using Arguments = NormTeamArguments<Source, Scales>;
  static_assert(kUnit == plan::NormUnit::row || kUnit == plan::NormUnit::group);

  struct Shared {
    Barrier full[plan::kMostNormTeamRows];
    float amax[2][plan::kMostNormTeamThreads / 32];
  };
  static_assert(sizeof(Shared) <= plan::kNormTeamStaticBytes);

  // `dynamic` holds the rings, the weights and the sums of plan::norm_team_shared_bytes.
  __device__ __forceinline__ NormTeam(const Arguments& arguments, Shared& shared,
                                      std::byte* dynamic)
      : call_(arguments.call),
        shared_(shared),
        depth_(arguments.depth),
        row_bytes_(static_cast<uint32_t>(arguments.call.columns) * kElementBytes),
        threads_(static_cast<int32_t>(blockDim.x) / arguments.teams),
        team_(thread_index<int32_t>() / threads_),
        thread_(thread_index<int32_t>() % threads_),
        full_(shared.full + team_ * arguments.depth),
        ring_(dynamic + static_cast<uint32_t>(team_ * arguments.depth) * row_bytes_),
        weights_(dynamic + static_cast<uint32_t>(arguments.teams * arguments.depth) * row_bytes_),
        sums_(reinterpret_cast<float*>(weights_ + row_bytes_) + team_ * (2 * kTreeChunks)) {
#pragma unroll
    for (int k = 0; k < kChunks; ++k) index_[k] = index_of(k);
  }

  [[nodiscard]] __device__ __forceinline__ int32_t team() const {
    return team_;
  }

  // The rows first, first + step, ... of the call.
  __device__ __forceinline__ void run(int32_t first, int32_t step, int32_t rows) {
    begin(first, step, rows);
    int32_t slot = 0;
    uint32_t parity = 0;
    int32_t turn = 0;  // of what is written while slower warps still read the row before
    for (int32_t row = first; row < rows; row += step) {
      // Load
      full_[slot].wait(parity);
      Chunk chunk[kChunks];
      const std::byte* const from = ring_ + static_cast<uint32_t>(slot) * row_bytes_;
#pragma unroll
      for (int k = 0; k < kChunks; ++k) chunk[k] = words_at(from, k);

      // Sum
      float* const sums = sums_ + turn * kTreeChunks;
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        float z[plan::kChunk];
        Source::values(chunk[k], z);
        sums[index(k)] = sum_of_squares(z);
      }
      meet();
      // Every thread of the team holds its part of the row: its place is free.
      if (thread_ == 0) fetch(row + depth_ * step, rows, slot);
      const float factor = call_.source.factor(tree_sum_of_warp<kTreeChunks>(sums));

      // Norm
      call_.source.norm(
          factor, chunk, [](int) { return true; }, [this](int k) { return words_at(weights_, k); });
      if (call_.source.is_kept()) keep(row, chunk);

      // Scale, encode and store
      typename Source::Amax amax;
#pragma unroll
      for (int k = 0; k < kChunks; ++k) amax.raise(chunk[k]);
      const Divisor divisor = call_.rule.divisor(max_of_unit(amax.value(), turn));
      store_chunks<Codec>(call_, chunk, divisor, [&](int k) {
        return typename QuantizeArguments<Source, Scales>::Place{row, index(k) * plan::kChunk,
                                                                 plan::kChunk};
      });
      store_scale(row, divisor);

      turn ^= 1;
      if (++slot == depth_) {
        slot = 0;
        parity ^= 1;
      }
    }
  }

 private:
  using Chunk = typename Source::Chunk;
  static constexpr int kChunks = plan::kNormTeamChunks;  // of one group
  static constexpr int kChunkBytes = sizeof(Chunk);
  static constexpr int kElementBytes = kChunkBytes / plan::kChunk;
  static constexpr int kGroupChunks = plan::kNormGroup / plan::kChunk;
  static constexpr int kGroupLanes = kGroupChunks / kChunks;
  static constexpr int kTreeChunks = kRounds * numerics::kTreeLanes;
  static_assert(kChunkBytes == 16 && (kChunks & (kChunks - 1)) == 0);

  // Of the row: this thread's k-th chunk. Neighbouring groups begin at different ones, so that
  // eight threads, which shared memory serves at once, find all of its banks.
  [[nodiscard]] __device__ __forceinline__ int32_t index_of(int k) const {
    const int32_t group = thread_ / kGroupLanes;
    return group * kGroupChunks + ((k + group) & (kChunks - 1)) * kGroupLanes +
           thread_ % kGroupLanes;
  }
  [[nodiscard]] __device__ __forceinline__ int32_t index(int k) const {
    return index_[k];
  }
  [[nodiscard]] __device__ __forceinline__ Chunk words_at(const std::byte* row, int k) const {
    const uint4 v =
        *reinterpret_cast<const uint4*>(row + static_cast<uint32_t>(index(k) * kChunkBytes));
    return {{v.x, v.y, v.z, v.w}};
  }
  __device__ __forceinline__ void meet() const {
    team_barrier(1 + team_, threads_);
  }

  // Copies a row, if there is one, to its place in the ring. One thread.
  __device__ __forceinline__ void fetch(int32_t row, int32_t rows, int32_t slot) {
    if (row >= rows) return;
    full_[slot].arrive_and_expect(row_bytes_);
    copy_bytes(ring_ + static_cast<uint32_t>(slot) * row_bytes_, call_.source.x_rows().begin(row),
               row_bytes_, &full_[slot]);
  }
  // Starts the first copies, and what all teams or rows have in common. All threads of the block.
  __device__ __forceinline__ void begin(int32_t first, int32_t step, int32_t rows) {
    if (thread_ == 0) {
      for (int32_t slot = 0; slot < depth_; ++slot) full_[slot].init(1);
      publish_barriers_to_copies();
      for (int32_t slot = 0; slot < depth_; ++slot) fetch(first + slot * step, rows, slot);
    }
    const int32_t chunks = call_.columns / plan::kChunk;
    for (auto i = thread_index<int32_t>(); i < chunks; i += static_cast<int32_t>(blockDim.x)) {
      store_words(weights_ + static_cast<uint32_t>(i * kChunkBytes),
                  call_.source.weight_words(i * plan::kChunk));
    }
    // Chunks beyond the row.
    for (int32_t i = chunks + thread_; i < kTreeChunks; i += threads_) {
      sums_[i] = 0.0F;
      sums_[kTreeChunks + i] = 0.0F;
    }
    __syncthreads();
  }

  __device__ __forceinline__ void keep(int32_t row, const Chunk (&chunk)[kChunks]) const {
    std::byte* const out = call_.source.rows_out().begin(row);
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      store_words(out + static_cast<uint32_t>(index(k) * kChunkBytes), chunk[k]);
    }
  }
  [[nodiscard]] __device__ __forceinline__ float max_of_unit(float amax, int32_t turn) const {
    if constexpr (kUnit == plan::NormUnit::group) {
      return max_of_lanes<kGroupLanes>(amax);
    } else {
      const auto warps = static_cast<unsigned>(threads_) / 32;
      return max_of_warps(amax, shared_.amax[turn] + static_cast<unsigned>(team_) * warps,
                          static_cast<unsigned>(thread_) / 32, warps, [this] { meet(); });
    }
  }
  __device__ __forceinline__ void store_scale(int32_t row, const Divisor& divisor) const {
    if constexpr (kUnit == plan::NormUnit::group) {
      if (thread_ % kGroupLanes == 0) {
        call_.store_held_scale(divisor, {0, row, thread_ / kGroupLanes, true});
      }
    } else {
      if (thread_ == 0) call_.store_held_scale(divisor, {0, row, 0, true});
    }
  }

  const QuantizeArguments<Source, Scales>& call_;
  Shared& shared_;
  int32_t depth_;
  uint32_t row_bytes_;
  int32_t threads_;  // of a team
  int32_t team_;
  int32_t thread_;  // of the team
  int32_t index_[kChunks];
  Barrier* full_;    // one a row of the ring
  std::byte* ring_;  // of the team
  std::byte* weights_;
  float* sums_;  // of the team: of two rows in turn
};

template <class Source, class Scales, class Codec, plan::NormUnit kUnit, int kRounds>
__global__ void __launch_bounds__(plan::kMostNormTeamThreads, 1)
    norm_teams(const __grid_constant__ NormTeamArguments<Source, Scales> arguments) {
  // Older architectures have no bulk copies, and no plan with teams.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  using Team = NormTeam<Source, Scales, Codec, kUnit, kRounds>;
  __shared__ typename Team::Shared shared;
  extern __shared__ __align__(128) std::byte dynamic[];
  begin_kernel();
  Team team(arguments, shared, dynamic);
  team.run(block_index<int32_t>() * arguments.teams + team.team(),
           static_cast<int32_t>(gridDim.x) * arguments.teams, arguments.call.rows.count(0));
#endif
}

}  // namespace rowscale::cuda
