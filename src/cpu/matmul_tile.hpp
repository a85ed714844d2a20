// The tile of a product that a thread works on at a time, and what a target does with it.
#pragma once

#include <cstdint>

namespace rowscale::cpu {

// Rows and columns of out and the length along k: A decoded, B decoded and transposed, and the sums
// take 132 KiB, which lie on the stack. Both sizes are multiples of what each target holds in
// registers (12 x 32 and 6 x 16).
inline constexpr int64_t kTileRows = 96;
inline constexpr int64_t kTileColumns = 96;
inline constexpr int64_t kTileDepth = 128;

// Of one step along k.
struct alignas(64) TileOperands {
  float a[kTileRows * kTileDepth];     // [row][k]
  float b[kTileDepth * kTileColumns];  // [k][column]
};

struct alignas(64) TileSums {
  float at[kTileRows * kTileColumns];
};

// Scales of a step with block scales.
struct TileScales {
  const float* rows;     // [kTileRows]
  const float* columns;  // [kTileColumns]
};

// to[k * kTileColumns + column] = the value of codes[column * stride + k], k < depth, and zeros in
// the other columns up to the next multiple of 32.
using DecodeColumnsFunction = void (*)(const uint8_t* codes, int64_t stride, int64_t columns,
                                       int64_t depth, float* to);

// sums += the products of a step, of `rows` rows and `columns` columns; columns behind those, up to
// the next multiple of 32, may take any value. scales: nullptr where the step has none.
using AddProductsFunction = void (*)(const TileOperands& operands, int64_t rows, int64_t columns,
                                     int64_t depth, const TileScales* scales, TileSums* sums);

}  // namespace rowscale::cpu
