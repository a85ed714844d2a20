// Eight quotients to eight codes, and back. The machine's conversion instructions where it has them
// (sm_89 and up), numerics where not; both give the same bits (tests/cuda/codec_test.cu). With
// ROWSCALE_SOFTWARE_CODEC numerics is taken everywhere, so that the way of sm_80 can be run.
#pragma once

#include "cuda/device/words.cuh"
#include "numerics/fp8.hpp"
#include "plan/gpu_plan.hpp"
#include "rowscale/types.hpp"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && !defined(ROWSCALE_SOFTWARE_CODEC)
#define ROWSCALE_HARDWARE_CODEC 1
#else
#define ROWSCALE_HARDWARE_CODEC 0
#endif

namespace rowscale::cuda {

template <class F>
struct Codec {
  using Format = F;
  static constexpr rowscale::Format kFormat =
      F::kMantissaBits == 3 ? rowscale::Format::e4m3 : rowscale::Format::e5m2;

  // As numerics::encode, nearest even and saturating; NaN gives 0x7F and is then changed by
  // `nan_xor`, with no branch.
  static __device__ __forceinline__ Words<8> encode(const float (&y)[plan::kChunk],
                                                    uint32_t nan_xor) {
    Words<8> codes;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t low = encode_pair(y[4 * i], y[4 * i + 1]);
      const uint32_t high = encode_pair(y[4 * i + 2], y[4 * i + 3]);
      codes.w[i] = replace_nan(low | high << 16, nan_xor);
    }
    return codes;
  }

  static __device__ __forceinline__ void decode(const Words<8>& codes, float (&v)[plan::kChunk]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      decode_pair((codes.w[i / 2] >> (16 * (i % 2))) & 0xFFFFU, v[2 * i], v[2 * i + 1]);
    }
  }

 private:
  static __device__ __forceinline__ uint32_t replace_nan(uint32_t codes, uint32_t nan_xor) {
    // A byte of 0x7F carries into its highest bit; prmt spreads that bit over the byte.
    const uint32_t carried = (codes & 0x7F7F7F7FU) + 0x01010101U;
    uint32_t is_nan;
    asm("prmt.b32 %0, %1, 0, 0xBA98;" : "=r"(is_nan) : "r"(carried));
    return codes ^ (is_nan & nan_xor);
  }

  static __device__ __forceinline__ uint32_t encode_pair(float low, float high) {
#if ROWSCALE_HARDWARE_CODEC
    uint16_t codes;
    if constexpr (kFormat == rowscale::Format::e4m3) {
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    }
    return codes;
#else
    return uint32_t{numerics::encode<F>(low)} | uint32_t{numerics::encode<F>(high)} << 8;
#endif
  }

  static __device__ __forceinline__ void decode_pair(uint32_t codes, float& low, float& high) {
#if ROWSCALE_HARDWARE_CODEC
    uint32_t halves;  // every FP8 value is an fp16 value
    if constexpr (kFormat == rowscale::Format::e4m3) {
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(codes)));
    } else {
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(codes)));
    }
    low = Pair<numerics::Fp16>::low(halves);
    high = Pair<numerics::Fp16>::high(halves);
#else
    low = numerics::decode<F>(static_cast<uint8_t>(codes & 0xFFU));
    high = numerics::decode<F>(static_cast<uint8_t>(codes >> 8));
#endif
  }
};

}  // namespace rowscale::cuda
