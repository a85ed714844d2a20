// FP8 codes as fp16: every value of both formats is one, so nothing is rounded.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/stage/codec.cuh"
#include "numerics/fp8.hpp"

namespace rowscale::cuda {

// Two fp16 in a word, the first in the low half.
struct FourHalves {
  uint32_t first;   // of the codes in the low half of a word
  uint32_t second;  // of those in the high half
};

// By shifts and one multiplication; tests/cuda/matmul_codec_test.cu goes through all codes.
__device__ __forceinline__ uint32_t e4m3_halves_by_shifts(uint32_t spread) {
  // `spread` has each code in the upper byte of its half. One place to the right the fields stand
  // where fp16 has its own; the biases differ by 8, and the product by 2^8 makes subnormals right.
  const uint32_t bits = (spread & 0x80008000U) | (spread & 0x7F007F00U) >> 1;
  const __half2 scaled = __hmul2_rn(*reinterpret_cast<const __half2*>(&bits),
                                    __half2(__ushort_as_half(0x5C00), __ushort_as_half(0x5C00)));
  // NaN, 0x7F, carries into the sign's place; 0x8000 - 0x0200 is a NaN of fp16.
  const uint32_t nan = ((spread & 0x7F007F00U) + 0x01000100U) & 0x80008000U;
  return *reinterpret_cast<const uint32_t*>(&scaled) | (nan - (nan >> 6));
}

enum class HalvesBy { instruction, shifts };
inline constexpr HalvesBy kHalvesBy =
    ROWSCALE_HARDWARE_CODEC != 0 ? HalvesBy::instruction : HalvesBy::shifts;

// Four codes, the lowest byte first. NaN gives a NaN, infinity infinity.
template <class F, HalvesBy kBy = kHalvesBy>
__device__ __forceinline__ FourHalves to_halves(uint32_t codes) {
  FourHalves halves;
  if constexpr (F::kMantissaBits == 3 && kBy == HalvesBy::instruction) {
    asm("{\n"
        " .reg .b16 low, high;\n"
        " mov.b32 {low, high}, %2;\n"
        " cvt.rn.f16x2.e4m3x2 %0, low;\n"
        " cvt.rn.f16x2.e4m3x2 %1, high;\n"
        "}"
        : "=r"(halves.first), "=r"(halves.second)
        : "r"(codes));
  } else {
    // e5m2 is the upper byte of an fp16.
    halves = {__byte_perm(codes, 0, 0x1404), __byte_perm(codes, 0, 0x3424)};
    if constexpr (F::kMantissaBits == 3) {
      halves = {e4m3_halves_by_shifts(halves.first), e4m3_halves_by_shifts(halves.second)};
    }
  }
  return halves;
}

}  // namespace rowscale::cuda
