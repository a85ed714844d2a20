// The parts of latent attention's rows in one launch: some blocks norm and quantize q, the others
// norm kv and copy rope.
#pragma once

#include "cuda/kernel/norm_any.cuh"
#include "cuda/kernel/norm_rows.cuh"

namespace rowscale::cuda {

// Columns that are copied as they are.
template <class T, class Access>
struct CopiedColumns {
  using Index = typename Access::Index;
  Access from;
  Access to;
  Index columns;  // 0: nothing to copy

  explicit CopiedColumns(const RopeCall& rope, plan::GpuLoads loads)
      : from(rope.from, loads), to(rope.to, loads), columns(static_cast<Index>(rope.columns)) {}

  // By the threads of a block.
  __device__ __forceinline__ void copy(Index row) const {
    for (Index column = thread_index<Index>() * plan::kChunk; column < columns;
         column += static_cast<Index>(blockDim.x) * plan::kChunk) {
      const Index count = columns - column;
      to.template store<T>(row, column, count, from.template load<T>(row, column, count));
    }
  }
};

// Rows that stay in registers, kv without codes.
template <class T, class Q, class Kv>
struct MlaArguments {
  typename Q::Arguments q;
  typename Kv::Arguments kv;
  CopiedColumns<T, VectorRows> rope;
  int32_t q_blocks;

  MlaArguments(const MlaCall& call, int32_t blocks_of_q)
      : q(call.q), kv(call.kv), rope(call.rope, call.q.loads), q_blocks(blocks_of_q) {}
};

template <class T, class Q, class Kv, int kThreads, int kResident>
__global__ void __launch_bounds__(kThreads, kResident)
    mla_rows(const __grid_constant__ MlaArguments<T, Q, Kv> a) {
  __shared__ typename Q::Shared q_shared;
  __shared__ typename Kv::Shared kv_shared;
  begin_kernel();
  const int32_t block = block_index<int32_t>();
  const int32_t rows = a.q.rows.count(0);
  if (block < a.q_blocks) {
    Q(a.q, q_shared).run(block, a.q_blocks, rows);
  } else {
    const int32_t step = static_cast<int32_t>(gridDim.x) - a.q_blocks;
    for (int32_t row = block - a.q_blocks; row < rows; row += step) a.rope.copy(row);
    Kv(a.kv, kv_shared).run(block - a.q_blocks, step, rows);
  }
}

// Any rows and recipes: two blocks for each.
template <class T, class Access>
struct MlaAnyArguments {
  NormAnyArguments<T, Access> q;
  NormAnyArguments<T, Access> kv;
  CopiedColumns<T, Access> rope;
  Format q_format;
  Format kv_format;

  explicit MlaAnyArguments(const MlaCall& call)
      : q(call.q),
        kv(call.kv),
        rope(call.rope, call.q.loads),
        q_format(call.q.recipe.format),
        kv_format(call.kv.recipe.format) {}
};

template <class T, class Access>
__device__ __noinline__ void norm_any_row_of(const NormAnyArguments<T, Access>& arguments,
                                             Format format, typename Access::Index row,
                                             NormAnyShared& shared) {
  if (format == Format::e4m3) {
    norm_any_row<T, Access, Codec<numerics::E4m3>>(arguments, row, shared);
  } else {
    norm_any_row<T, Access, Codec<numerics::E5m2>>(arguments, row, shared);
  }
}

template <class T, class Access>
__global__ void __launch_bounds__(plan::kNormAnyThreads)
    mla_any(const __grid_constant__ MlaAnyArguments<T, Access> a) {
  using Index = typename Access::Index;
  __shared__ NormAnyShared shared;
  begin_kernel();
  const Index block = block_index<Index>();
  const Index row = block / 2;
  const auto& rows = a.q.a.call.rows;
  if (!rows.exists(rows.place(row))) return;
  if (block % 2 == 0) {
    norm_any_row_of(a.q, a.q_format, row, shared);
  } else {
    a.rope.copy(row);
    norm_any_row_of(a.kv, a.kv_format, row, shared);
  }
}

}  // namespace rowscale::cuda
