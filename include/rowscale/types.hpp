// The words of a recipe and of a tensor: enumerations only, so that the numerics (src/numerics) can
// name their choices with the same types as the public interface.
#pragma once

#include <cstdint>

namespace rowscale {

// Element types. e4m3 is the OCP "fn" form (largest 448, NaN 0x7F, no infinity); ue8m0 is one
// exponent byte, value 2^(byte-127), 255 is NaN; i32 holds packed UE8M0 scales and row counts.
enum class DType : int32_t { f32 = 0, f16 = 1, bf16 = 2, e4m3 = 3, e5m2 = 4, ue8m0 = 5, i32 = 6 };

enum class DeviceType : int32_t { cpu = 0, cuda = 1 };

// Target format of the codes.
enum class Format : int32_t { e4m3 = 0, e5m2 = 1 };

// Which elements share a scale. per_channel is the arithmetic of per_token on the rows of a weight
// [N, K], with another default floor. per_column takes given scales only.
enum class Granularity : int32_t {
  per_tensor = 0,
  per_token = 1,
  per_channel = 2,
  per_column = 3,
  per_group = 4,
  per_block = 5
};

// dynamic: computed from this input and written. given: read.
enum class ScaleSource : int32_t { dynamic = 0, given = 1 };

// f32: any float. ue8m0_f32: a float that is a power of two. ue8m0: its exponent byte.
// ue8m0_packed: four exponent bytes of one row in an int32, lowest group in the lowest byte.
enum class ScaleEncoding : int32_t { f32 = 0, ue8m0_f32 = 1, ue8m0 = 2, ue8m0_packed = 3 };

// How the scale matrix lies in memory; docs/scale_layouts.md draws each. ue8m0_packed has its own
// layout and ignores this field. block_k4 is for per_block only: rows of scales padded to 4, the
// layout that cuBLASLt reads for 128x128 blocks.
enum class ScaleLayout : int32_t {
  row_major = 0,
  column_major = 1,
  column_major_tma = 2,
  block_k4 = 3
};

// standard: what the profile and the granularity prescribe (see resolve()).
enum class FloorKind : int32_t {
  standard = 0,
  none = 1,
  amax = 2,     // amax >= value
  scale = 3,    // scale >= value
  if_zero = 4,  // a scale of zero becomes value
};
enum class BoundKind : int32_t { none = 0, amax = 1, scale = 2 };

// divide: x / s. reciprocal: x * (1 / s), the reciprocal rounded once.
enum class Quotient : int32_t { standard = 0, divide = 1, reciprocal = 2 };

// The code of a NaN: 0x7F, or the largest or the most negative finite code.
enum class NanRule : int32_t { standard = 0, propagate = 1, clamp_high = 2, clamp_low = 3 };

// Whose defaults: rowscale's own, or those of the vLLM operators that rowscale replaces.
enum class Profile : int32_t { rowscale = 0, vllm = 1 };

}  // namespace rowscale
