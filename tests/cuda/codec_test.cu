// The conversions of the kernels, as this architecture and this build make them (instructions or
// numerics), against numerics on the device, for every input in every place of a vector. That
// numerics gives the same on the device as on the host is shown by cuda_numerics_test.cu.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "cuda/calls.hpp"
#include "cuda/stage/activation.cuh"
#include "cuda/stage/codec.cuh"
#include "cuda/stage/norm.cuh"
#include "cuda/stage/scale.cuh"
#include "numerics/float16.hpp"
#include "numerics/fp.hpp"
#include "numerics/fp8.hpp"
#include "numerics/quotient.hpp"
#include "tests/cuda/support/device.hpp"

namespace rowscale::test {
namespace {

using numerics::Bf16;
using numerics::E4m3;
using numerics::E5m2;
using numerics::Fp16;

struct Found {
  unsigned long long checked;
  unsigned long long count;
  uint32_t input;  // of one that differs
  uint32_t other;
  uint32_t got;
  uint32_t want;
};

__device__ void check(Found* found, uint32_t input, uint32_t other, uint32_t got, uint32_t want) {
  if (got == want) return;
  if (atomicAdd(&found->count, 1ULL) != 0) return;
  found->input = input;
  found->other = other;
  found->got = got;
  found->want = want;
}

__device__ void count_checked(Found* found, unsigned long long n) {
  if (threadIdx.x == 0) atomicAdd(&found->checked, n * blockDim.x);
}

// Eight neighbouring patterns a thread; `swap` changes the places of neighbours, so that each
// pattern is seen as the low and as the high one of a pair.
template <class F>
__global__ void encode_all(uint32_t swap, NanRule rule, uint32_t nan_xor, Found* found) {
  const uint32_t first = 8U * (blockIdx.x * blockDim.x + threadIdx.x);
  float y[8];
  for (uint32_t i = 0; i < 8; ++i) y[i] = numerics::from_bits(first + (i ^ swap));
  const cuda::Words<8> codes = cuda::Codec<F>::encode(y, nan_xor);
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t pattern = first + (i ^ swap);
    check(found, pattern, i, codes.w[i / 4] >> (8 * (i % 4)) & 0xFFU,
          numerics::encode<F>(numerics::from_bits(pattern), rule));
  }
  count_checked(found, 8);
}

// 1 / s for every scale of the fast quotient.
__global__ void invert_all(uint32_t first, Found* found) {
  const uint32_t pattern = first + blockIdx.x * blockDim.x + threadIdx.x;
  const float s = numerics::from_bits(pattern);
  if (numerics::fast_quotient_is_valid(s)) {
    check(found, pattern, 0, numerics::to_bits(cuda::reciprocal_of_valid(s)),
          numerics::to_bits(numerics::div(1.0F, s)));
  }
  count_checked(found, 1);
}

// Every pair of codes in every place; the rest of the vector differs from it.
template <class F>
__global__ void decode_all(Found* found) {
  const uint32_t pair = blockIdx.x * blockDim.x + threadIdx.x;
  for (uint32_t place = 0; place < 4; ++place) {
    cuda::Words<8> codes = {{~pair, pair * 0x01010101U}};
    uint32_t& word = codes.w[place / 2];
    const uint32_t shift = 16 * (place % 2);
    word = (word & ~(0xFFFFU << shift)) | pair << shift;
    float v[8];
    cuda::Codec<F>::decode(codes, v);
    for (uint32_t i = 0; i < 8; ++i) {
      const auto code = static_cast<uint8_t>(codes.w[i / 4] >> (8 * (i % 4)) & 0xFFU);
      // A NaN is made canonical where it is stored.
      check(found, code, i, numerics::to_bits(numerics::canonical(v[i])),
            numerics::to_bits(numerics::decode<F>(code)));
    }
  }
  count_checked(found, 32);
}

template <class T>
__global__ void widen_all(Found* found) {
  const uint32_t bits = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t other = bits * 0x9E37U & 0xFFFFU;
  const auto stored = [](float x) { return numerics::to_bits(numerics::canonical(x)); };
  const uint32_t want = stored(numerics::to_f32(T{static_cast<uint16_t>(bits)}));
  check(found, bits, other, stored(cuda::Pair<T>::low(bits | other << 16)), want);
  check(found, bits, other, stored(cuda::Pair<T>::high(other | bits << 16)), want);
  count_checked(found, 2);
}

template <class T>
__global__ void round_all(uint32_t swap, Found* found) {
  const uint32_t first = 2U * (blockIdx.x * blockDim.x + threadIdx.x);
  const uint32_t low = first + swap;
  const uint32_t high = first + (1U - swap);
  const uint32_t word = cuda::Pair<T>::round(numerics::from_bits(low), numerics::from_bits(high));
  check(found, low, 0, word & 0xFFFFU, numerics::round_to<T>(numerics::from_bits(low)).bits);
  check(found, high, 1, word >> 16, numerics::round_to<T>(numerics::from_bits(high)).bits);
  count_checked(found, 2);
}

// Magnitudes, as an amax has them: every pair of them, NaN beside a number and NaN beside NaN.
template <class T>
__global__ void max_all(Found* found) {
  const uint32_t a = blockIdx.x;
  for (uint32_t b = threadIdx.x; b < 0x8000U; b += blockDim.x) {
    const uint32_t word = cuda::Pair<T>::max(a | b << 16, b | a << 16);
    const float x = numerics::to_f32(T{static_cast<uint16_t>(a)});
    const float y = numerics::to_f32(T{static_cast<uint16_t>(b)});
    const float most = numerics::is_nan(x) ? y : numerics::is_nan(y) ? x : (x > y ? x : y);
    const uint32_t want = numerics::to_bits(numerics::canonical(most));
    const auto value = [](uint32_t bits) {
      return numerics::to_bits(
          numerics::canonical(numerics::to_f32(T{static_cast<uint16_t>(bits)})));
    };
    check(found, a, b, value(word & 0xFFFFU), want);
    check(found, a, b, value(word >> 16), want);
  }
  count_checked(found, 2 * 0x8000U / blockDim.x);
}

// Sums and products of every pair, in both halves.
template <class T>
__global__ void combine_all(Found* found) {
  const uint32_t a = blockIdx.x;
  const float x = numerics::to_f32(T{static_cast<uint16_t>(a)});
  for (uint32_t b = threadIdx.x; b < 0x10000U; b += blockDim.x) {
    const float y = numerics::to_f32(T{static_cast<uint16_t>(b)});
    const uint32_t sum = numerics::round_to<T>(numerics::add(x, y)).bits;
    const uint32_t product = numerics::round_to<T>(numerics::mul(x, y)).bits;
    check(found, a, b, cuda::Pair<T>::add(a | b << 16, b | a << 16), sum | sum << 16);
    check(found, b, a, cuda::Pair<T>::mul(a | b << 16, b | a << 16), product | product << 16);
  }
  count_checked(found, 2 * 0x10000U / blockDim.x);
}

__global__ void silu_all(Found* found) {
  const uint32_t bits = blockIdx.x * blockDim.x + threadIdx.x;
  const float g = numerics::to_f32(Bf16{static_cast<uint16_t>(bits)});
  check(found, bits, 0, numerics::round_to<Bf16>(cuda::fast_silu(g)).bits,
        numerics::round_to<Bf16>(numerics::swish(g, 1.0F)).bits);
  count_checked(found, 1);
}

// Every sum of squares, for a row's length.
__global__ void rms_factor_all(int64_t hidden, float eps, Found* found) {
  const numerics::FastDivisor divisor = numerics::make_fast_divisor(static_cast<float>(hidden));
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t pattern = 8 * (blockIdx.x * blockDim.x + threadIdx.x) + i;
    const float sum = numerics::from_bits(pattern);
    const auto stored = [](float x) { return numerics::to_bits(numerics::canonical(x)); };
    check(found, pattern, static_cast<uint32_t>(hidden),
          stored(cuda::fast_rms_factor(sum, divisor, eps)),
          stored(numerics::rms_factor(sum, hidden, eps)));
  }
  count_checked(found, 8);
}

class CudaCodec : public GpuTest {
 protected:
  static constexpr uint32_t kThreads = 256;

  // launch(device Found*)
  template <class Launch>
  static void expect_none(uint64_t checks, Launch&& launch) {
    const DeviceMemory memory(sizeof(Found));
    auto* found = reinterpret_cast<Found*>(memory.data());
    ASSERT_EQ(cudaMemset(found, 0, sizeof(Found)), cudaSuccess);
    launch(found);
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    Found result;
    ASSERT_EQ(cudaMemcpy(&result, found, sizeof result, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(result.checked, checks);
    EXPECT_EQ(result.count, 0U) << std::hex << "input 0x" << result.input << " (0x" << result.other
                                << "): got 0x" << result.got << ", want 0x" << result.want;
  }

  template <class F>
  static void encode_every_float() {
    for (NanRule rule : {NanRule::propagate, NanRule::clamp_high, NanRule::clamp_low}) {
      for (uint32_t swap : {0U, 1U, 3U, 7U}) {
        expect_none(1ULL << 32, [&](Found* found) {
          encode_all<F><<<(1U << 29) / kThreads, kThreads>>>(
              swap, rule, cuda::nan_difference(cuda::Codec<F>::kFormat, rule), found);
        });
      }
    }
  }
};

TEST_F(CudaCodec, EncodeE4m3OfAllFloats) {
  encode_every_float<E4m3>();
}
TEST_F(CudaCodec, EncodeE5m2OfAllFloats) {
  encode_every_float<E5m2>();
}

TEST_F(CudaCodec, DecodeOfAllCodes) {
  expect_none(32ULL << 16, [](Found* found) { decode_all<E4m3><<<256, kThreads>>>(found); });
  expect_none(32ULL << 16, [](Found* found) { decode_all<E5m2><<<256, kThreads>>>(found); });
}

TEST_F(CudaCodec, SixteenBitValuesToFloat) {
  expect_none(2ULL << 16, [](Found* found) { widen_all<Bf16><<<256, kThreads>>>(found); });
  expect_none(2ULL << 16, [](Found* found) { widen_all<Fp16><<<256, kThreads>>>(found); });
}

TEST_F(CudaCodec, AllFloatsToSixteenBits) {
  for (uint32_t swap : {0U, 1U}) {
    expect_none(1ULL << 32, [&](Found* found) {
      round_all<Bf16><<<(1U << 31) / kThreads, kThreads>>>(swap, found);
    });
    expect_none(1ULL << 32, [&](Found* found) {
      round_all<Fp16><<<(1U << 31) / kThreads, kThreads>>>(swap, found);
    });
  }
}

TEST_F(CudaCodec, LargerOfAllSixteenBitMagnitudes) {
  expect_none(2ULL << 30, [](Found* found) { max_all<Bf16><<<0x8000, kThreads>>>(found); });
  expect_none(2ULL << 30, [](Found* found) { max_all<Fp16><<<0x8000, kThreads>>>(found); });
}

TEST_F(CudaCodec, SumsAndProductsOfAllSixteenBitPairs) {
  expect_none(2ULL << 32, [](Found* found) { combine_all<Bf16><<<0x10000, kThreads>>>(found); });
  expect_none(2ULL << 32, [](Found* found) { combine_all<Fp16><<<0x10000, kThreads>>>(found); });
}

TEST_F(CudaCodec, FastSiluOfEveryBf16) {
  expect_none(1ULL << 16, [](Found* found) { silu_all<<<256, kThreads>>>(found); });
}

TEST_F(CudaCodec, FastRmsFactorOfEverySum) {
  for (float eps : {1e-6F, 1e-5F, cuda::kLeastCommonEps, 0.5F, cuda::kMostCommonEps}) {
    for (int64_t hidden : {1, 7, 4096, 5120, 7168, 16384, 1 << 20}) {
      // Not negative, infinity and NaN among them.
      expect_none(1ULL << 31, [&](Found* found) {
        rms_factor_all<<<(1U << 28) / kThreads, kThreads>>>(hidden, eps, found);
      });
    }
  }
}

TEST_F(CudaCodec, ReciprocalOfEveryFastScale) {
  // From 2^-80 up to 2^96, and a little beyond.
  const uint32_t first = numerics::to_bits(numerics::kFastQuotientLowest);
  expect_none(178ULL << 23, [&](Found* found) {
    invert_all<<<(178U << 23) / kThreads, kThreads>>>(first, found);
  });
}

}  // namespace
}  // namespace rowscale::test
