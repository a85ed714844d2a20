// The inner loops of products. Compiled once per target.
#if defined(ROWSCALE_CPU_SIMD_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROWSCALE_CPU_SIMD_MATMUL_INL_H_
#undef ROWSCALE_CPU_SIMD_MATMUL_INL_H_
#else
#define ROWSCALE_CPU_SIMD_MATMUL_INL_H_
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/matmul_tile.hpp"
#include "cpu/simd/fp8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rowscale::cpu::HWY_NAMESPACE {

// Codes are transposed in squares of this many: 16 bytes are a vector on every target.
inline constexpr int64_t kSquare = 16;
constexpr hn::FixedTag<uint8_t, kSquare> dcodes;

// out[k][column] = in[column][k]: four rounds that interleave column i with column i + 8.
HWY_INLINE void TransposeSquare(const uint8_t* const* columns, uint8_t (*out)[kSquare]) {
  hn::Vec<decltype(dcodes)> v[kSquare], w[kSquare];
  HWY_UNROLL(16)
  for (int64_t i = 0; i < kSquare; ++i) v[i] = hn::LoadU(dcodes, columns[i]);
  const auto interleave = [](const auto* from, auto* to) HWY_ATTR {
    HWY_UNROLL(8)
    for (int64_t i = 0; i < kSquare / 2; ++i) {
      to[2 * i] = hn::InterleaveLower(dcodes, from[i], from[i + kSquare / 2]);
      to[2 * i + 1] = hn::InterleaveUpper(dcodes, from[i], from[i + kSquare / 2]);
    }
  };
  interleave(v, w);
  interleave(w, v);
  interleave(v, w);
  interleave(w, v);
  HWY_UNROLL(16)
  for (int64_t i = 0; i < kSquare; ++i) hn::StoreU(v[i], dcodes, out[i]);
}

template <class F>
HWY_NOINLINE void DecodeColumns(const uint8_t* codes, int64_t stride, int64_t columns,
                                int64_t depth, float* to) {
  static constexpr uint8_t kZeros[kSquare] = {};
  // Whole vectors: the micro-kernels read up to the next multiple of 32.
  const int64_t padded = (columns + 31) / 32 * 32;
  alignas(64) uint8_t transposed[kSquare][kSquare];
  alignas(64) uint8_t ends[kSquare][kSquare] = {};
  for (int64_t column = 0; column < padded; column += kSquare) {
    const int64_t there = std::clamp<int64_t>(columns - column, 0, kSquare);
    for (int64_t k = 0; k < depth; k += kSquare) {
      const int64_t length = std::min(kSquare, depth - k);
      const uint8_t* from[kSquare];
      for (int64_t i = 0; i < kSquare; ++i) {
        from[i] = i < there ? codes + (column + i) * stride + k : kZeros;
        if (i < there && length < kSquare) {
          std::memcpy(ends[i], from[i], static_cast<size_t>(length));
          from[i] = ends[i];
        }
      }
      TransposeSquare(from, transposed);
      for (int64_t j = 0; j < length; ++j) {
        float* row = to + (k + j) * kTileColumns + column;
        for (int64_t i = 0; i < kSquare; i += kLanes) {
          hn::StoreU(DecodeLanes<F>(transposed[j] + i), df, row + i);
        }
      }
    }
  }
}

// As many accumulators as the registers hold beside two vectors of b.
inline constexpr int64_t kMostTileRows = HWY_TARGET == HWY_AVX3 ? 12 : 6;

// The loops over registers are unrolled by force: left as loops, g++ -O2 keeps the accumulators in
// memory, at a third of the speed.
template <int64_t kRows>
HWY_NOINLINE void AddTile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t depth,
                          const TileScales* scales, int64_t row, int64_t column,
                          float* HWY_RESTRICT sums) {
  VF p[kRows][2];
  HWY_UNROLL(12)
  for (int64_t i = 0; i < kRows; ++i) p[i][0] = p[i][1] = hn::Zero(df);
  for (int64_t k = 0; k < depth; ++k) {
    const VF b0 = hn::LoadU(df, b + k * kTileColumns);
    const VF b1 = hn::LoadU(df, b + k * kTileColumns + kLanes);
    HWY_UNROLL(12)
    for (int64_t i = 0; i < kRows; ++i) {
      const VF left = hn::Set(df, a[i * kTileDepth + k]);
      p[i][0] = hn::MulAdd(left, b0, p[i][0]);
      p[i][1] = hn::MulAdd(left, b1, p[i][1]);
    }
  }
  HWY_UNROLL(12)
  for (int64_t i = 0; i < kRows; ++i) {
    HWY_UNROLL(2)
    for (int64_t v = 0; v < 2; ++v) {
      float* at = sums + i * kTileColumns + v * kLanes;
      VF part = p[i][v];
      if (scales != nullptr) {
        part = hn::Mul(part, hn::Set(df, scales->rows[row + i]));
        part = hn::Mul(part, hn::LoadU(df, scales->columns + column + v * kLanes));
      }
      hn::StoreU(hn::Add(hn::LoadU(df, at), part), df, at);
    }
  }
}

using AddTileFunction = void (*)(const float*, const float*, int64_t, const TileScales*, int64_t,
                                 int64_t, float*);

// [rows - 1]
template <size_t... kRows>
constexpr std::array<AddTileFunction, sizeof...(kRows)> TilesOf(std::index_sequence<kRows...>) {
  return {AddTile<static_cast<int64_t>(kRows) + 1>...};
}

HWY_NOINLINE void AddProducts(const TileOperands& operands, int64_t rows, int64_t columns,
                              int64_t depth, const TileScales* scales, TileSums* sums) {
  static constexpr auto kTiles = TilesOf(std::make_index_sequence<kMostTileRows>());
  for (int64_t column = 0; column < columns; column += 2 * kLanes) {
    for (int64_t row = 0; row < rows; row += kMostTileRows) {
      const int64_t count = std::min(kMostTileRows, rows - row);
      kTiles[static_cast<size_t>(count - 1)](operands.a + row * kTileDepth, operands.b + column,
                                             depth, scales, row, column,
                                             sums->at + row * kTileColumns + column);
    }
  }
}

}  // namespace rowscale::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROWSCALE_CPU_SIMD_MATMUL_INL_H_
