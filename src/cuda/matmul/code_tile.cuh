// Codes on their way from memory into fragments of the tensor cores: pieces of 16 bytes into shared
// memory, and from there 8x8 matrices into registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/barrier.cuh"
#include "cuda/matmul/general.hpp"

namespace rowscale::cuda {

inline constexpr int kPiece = 16;        // bytes
inline constexpr int kChunkCodes = 128;  // of a row along k: what one partial sum goes over
inline constexpr int kPieces = kChunkCodes / kPiece;

// Where a piece of a row lies in a tile of rows of 128 bytes. Neighbouring rows have a piece in
// other banks, so that eight rows are read at once.
__device__ __forceinline__ int piece_offset(int row, int piece) {
  return row * kChunkCodes + ((piece ^ (row & 7)) * kPiece);
}

// A piece of a row of codes, at any address. Nothing outside the row is read.
struct PieceSource {
  const std::byte* from;  // any address where count is 0
  int before;             // codes of the row before the piece, or more than 3 of them
  int count;              // codes of the row from the piece on; may be 0 or less, or more than 16
};

__device__ __forceinline__ uint4 load_any_piece(const PieceSource& piece) {
  uint32_t words[4] = {0, 0, 0, 0};
  const auto shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(piece.from) & 3U);
  if (piece.before >= 4 && piece.count >= kPiece + 4) {
    // Aligned words that lie inside the row.
    const auto* aligned = reinterpret_cast<const uint32_t*>(piece.from - shift);
    uint32_t low = aligned[0];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t high = aligned[i + 1];
      words[i] = __funnelshift_r(low, high, 8 * shift);
      low = high;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      const uint32_t code = i < piece.count ? static_cast<uint32_t>(piece.from[i]) : 0U;
      words[i / 4] |= code << (8 * (i % 4));
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Into shared memory, zeros behind the end of the row. Done when wait_for_pieces() and a barrier
// have been passed.
template <CodeLoads kLoads>
__device__ __forceinline__ void copy_piece(std::byte* to, const PieceSource& piece) {
  if constexpr (kLoads == CodeLoads::aligned) {
    const int bytes = piece.count <= 0 ? 0 : (piece.count < kPiece ? piece.count : kPiece);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(piece.from), "r"(bytes)
                 : "memory");
  } else {
    *reinterpret_cast<uint4*>(to) = load_any_piece(piece);
  }
}

// A group of the pieces since the call before.
__device__ __forceinline__ void commit_pieces() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// For all of this thread's groups but the last kPending.
template <int kPending>
__device__ __forceinline__ void wait_for_pieces() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Two or four matrices of 8 rows of 16 bytes. Lane l gives the address of row l % 8 of matrix
// l / 8, and gets bytes 4 (l % 4) to 4 (l % 4) + 3 of row l / 4 of each.
__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t (&m)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(m[0]), "=r"(m[1])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

}  // namespace rowscale::cuda
