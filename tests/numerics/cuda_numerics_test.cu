// Host against device, bit for bit, from the same source: encode on all 2^32 floats, everything
// else on a dense stride of them and on special values. What the host gives is tested by the other
// files of this folder. Results are made canonical first, because before that NaN may differ in
// sign and payload; after it they must not.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "numerics/activation.hpp"
#include "numerics/exp.hpp"
#include "numerics/float16.hpp"
#include "numerics/fp.hpp"
#include "numerics/fp8.hpp"
#include "numerics/quotient.hpp"
#include "numerics/rms_norm.hpp"
#include "numerics/scale_rule.hpp"
#include "numerics/ue8m0.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::Mismatches;

// A second operand that goes through all patterns while the first one does.
ROWSCALE_HD uint32_t partner(uint32_t pattern) {
  uint32_t z = pattern * 0x9E3779B1U;
  z = (z ^ (z >> 15)) * 0x85EBCA77U;
  return z ^ (z >> 13);
}

ROWSCALE_HD uint32_t stored(float x) {
  return to_bits(canonical(x));
}

// One function each: pattern in, bits out.
template <class F>
struct Encode {
  ROWSCALE_HD static uint32_t of(uint32_t p) { return encode<F>(from_bits(p)); }
};
template <class F>
struct EncodeWithNanRule {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    const float y = from_bits(p);
    return encode<F>(y, NanRule::propagate) | encode<F>(y, NanRule::clamp_high) << 8 |
           encode<F>(y, NanRule::clamp_low) << 16;
  }
};
template <class F>
struct Decode {
  ROWSCALE_HD static uint32_t of(uint32_t p) { return to_bits(decode<F>(static_cast<uint8_t>(p))); }
};
template <class T>
struct RoundTo16 {
  ROWSCALE_HD static uint32_t of(uint32_t p) { return round_to<T>(from_bits(p)).bits; }
};
template <class T>
struct From16 {
  ROWSCALE_HD static uint32_t of(uint32_t p) { return stored(to_f32(T{static_cast<uint16_t>(p)})); }
};
struct Ue8m0 {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    const auto byte = static_cast<uint8_t>(p);
    return ue8m0_round_up(abs(canonical(from_bits(p)))) | ue8m0_of_value(from_bits(p)) << 8 |
           (to_bits(ue8m0_decode(byte)) >> 23) << 16;
  }
};
template <FloorKind floor, BoundKind bound, ScaleEncoding encoding>
struct MakeScale {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    const float amax = is_nan(from_bits(p)) ? 0.0F : abs(from_bits(p));
    const float floor_value = floor == FloorKind::amax ? 1e-10F : 1.0F / (448.0F * 512.0F);
    const ScaleRule rule{448.0F, floor, floor_value, bound, from_bits(partner(p)), encoding};
    return stored(make_scale(rule, amax));
  }
};
template <Quotient form>
struct IeeeQuotient {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    return stored(quotient(from_bits(p), from_bits(partner(p)), form));
  }
};
// A scale from 2^-95 to 2^96.
ROWSCALE_HD float valid_scale(uint32_t p) {
  return from_bits(((32U + (p >> 23) % 191U) << 23) | (p & 0x7FFFFFU));
}
struct Fast {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    return stored(fast_quotient(from_bits(p), make_fast_divisor(valid_scale(partner(p)))));
  }
};
struct FastMagnitude {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    const Reciprocal r = make_reciprocal(valid_scale(partner(p)));
    return stored(fast_magnitude_quotient(abs(from_bits(p)), r)) ^ 3U * to_bits(r.low);
  }
};
struct IsFastValid {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    return fast_quotient_is_valid(from_bits(p)) ? 1U : 0U;
  }
};
struct Exp {
  ROWSCALE_HD static uint32_t of(uint32_t p) { return stored(exp(from_bits(p))); }
};
struct Silu {
  ROWSCALE_HD static uint32_t of(uint32_t p) { return stored(swish(from_bits(p), 1.0F)); }
};
struct SiluQuotient {
  ROWSCALE_HD static uint32_t of(uint32_t p) { return stored(silu_quotient(from_bits(p))); }
};
struct SiluProduct {
  ROWSCALE_HD static uint32_t of(uint32_t p) { return stored(silu_product(from_bits(p))); }
};
struct GeluTanh {
  ROWSCALE_HD static uint32_t of(uint32_t p) { return stored(gelu_tanh(from_bits(p))); }
};
struct Products {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    const float x = from_bits(p);
    const float u = from_bits(partner(p));
    return stored(silu_mul<Bf16>(x, u)) ^ 3U * stored(gelu_tanh_mul<Fp16>(x, u)) ^
           5U * stored(relu2(x));
  }
};
struct SwigluClamped {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    return stored(swiglu_clamped(from_bits(p), from_bits(partner(p)), 1.702F, 7.0F));
  }
};
struct RmsFactor {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    return stored(rms_factor(abs(from_bits(p)), 1 + partner(p) % 100000U, 1e-6F));
  }
};
struct AddSquareAndNorm {
  ROWSCALE_HD static uint32_t of(uint32_t p) {
    const float z = from_bits(p);
    const float other = from_bits(partner(p));
    return stored(add_square(other, z)) ^ 3U * stored(normed<Bf16>(z, other, 1.25F)) ^
           5U * stored(normed_gemma(z, other, 0.3F));
  }
};

template <class Function>
__global__ void apply(const uint32_t* patterns, uint32_t count, uint32_t* results) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) results[i] = Function::of(patterns[i]);
}

// Four consecutive patterns a word, so that the copy back stays small.
template <class Function>
__global__ void apply_to_range(uint32_t first, uint32_t words, uint32_t* results) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= words) return;
  uint32_t packed = 0;
  for (uint32_t j = 0; j < 4; ++j) packed |= Function::of(first + 4U * i + j) << (8U * j);
  results[i] = packed;
}

class DeviceWords {
 public:
  explicit DeviceWords(size_t count) { error_ = cudaMalloc(&words_, count * sizeof(uint32_t)); }
  ~DeviceWords() { cudaFree(words_); }
  DeviceWords(const DeviceWords&) = delete;
  DeviceWords& operator=(const DeviceWords&) = delete;

  cudaError_t error() const { return error_; }
  uint32_t* get() const { return words_; }

 private:
  uint32_t* words_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

constexpr uint32_t kThreadsPerBlock = 256;
uint32_t blocks_for(uint32_t count) {
  return (count + kThreadsPerBlock - 1) / kThreadsPerBlock;
}

// Every 1021st pattern, and every exponent's ends and neighbours of the values that functions
// branch on, both signs.
const std::vector<uint32_t>& dense_patterns() {
  static const std::vector<uint32_t> patterns = [] {
    std::vector<uint32_t> all;
    for (uint64_t p = 0; p < (1ULL << 32); p += 1021) all.push_back(static_cast<uint32_t>(p));
    std::vector<uint32_t> centres;
    for (uint32_t exponent = 0; exponent < 256; ++exponent) centres.push_back(exponent << 23);
    for (const float x : {448.0F, 464.0F, 57344.0F, 61440.0F, 65504.0F, 65520.0F, 87.0F, 89.0F,
                          104.0F, 88.722839F, 7.0F, 1e-10F}) {
      centres.push_back(to_bits(x));
    }
    for (const uint32_t centre : centres) {
      for (uint32_t step = 0; step < 7; ++step) {
        all.push_back((centre + step - 3U) & 0x7FFFFFFFU);
        all.push_back((centre + step - 3U) | 0x80000000U);
      }
    }
    for (uint32_t p = 0; p < 0x10000U; ++p) {
      all.push_back(p);        // all 8-bit and 16-bit codes
      all.push_back(p << 16);  // all bf16 values
    }
    return all;
  }();
  return patterns;
}

class CudaNumerics : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
      GTEST_SKIP() << "no CUDA device: " << cudaGetErrorName(error) << " ("
                   << cudaGetErrorString(error) << ")";
    }
    if (count == 0) GTEST_SKIP() << "no CUDA device: cudaGetDeviceCount gives 0 (cudaSuccess)";
  }

  template <class Function>
  void compare_dense() {
    const std::vector<uint32_t>& patterns = dense_patterns();
    const auto count = static_cast<uint32_t>(patterns.size());
    const DeviceWords in(count);
    const DeviceWords out(count);
    ASSERT_EQ(in.error(), cudaSuccess);
    ASSERT_EQ(out.error(), cudaSuccess);
    ASSERT_EQ(
        cudaMemcpy(in.get(), patterns.data(), count * sizeof(uint32_t), cudaMemcpyHostToDevice),
        cudaSuccess);
    // What the device does not write must not pass for a result.
    ASSERT_EQ(cudaMemset(out.get(), 0xA5, count * sizeof(uint32_t)), cudaSuccess);
    apply<Function><<<blocks_for(count), kThreadsPerBlock>>>(in.get(), count, out.get());
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    std::vector<uint32_t> results(count);
    ASSERT_EQ(
        cudaMemcpy(results.data(), out.get(), count * sizeof(uint32_t), cudaMemcpyDeviceToHost),
        cudaSuccess);
    const Mismatches found =
        test::sweep(0, count, [&](uint64_t begin, uint64_t end, Mismatches& mine) {
          for (uint64_t i = begin; i < end; ++i) {
            mine.check(patterns[i], results[i], Function::of(patterns[i]), partner(patterns[i]));
          }
        });
    EXPECT_EQ(found.checked, count);
    EXPECT_EQ(found.count, 0U) << found;
  }

  template <class Function>
  void compare_all_bytes() {
    constexpr uint32_t kWords = 1U << 24;
    const DeviceWords out(kWords);
    ASSERT_EQ(out.error(), cudaSuccess);
    std::vector<uint32_t> results(kWords);
    Mismatches all;
    for (uint64_t first = 0; first < (1ULL << 32); first += 4ULL * kWords) {
      apply_to_range<Function><<<blocks_for(kWords), kThreadsPerBlock>>>(
          static_cast<uint32_t>(first), kWords, out.get());
      ASSERT_EQ(cudaGetLastError(), cudaSuccess);
      ASSERT_EQ(
          cudaMemcpy(results.data(), out.get(), kWords * sizeof(uint32_t), cudaMemcpyDeviceToHost),
          cudaSuccess);
      all.merge(test::sweep(0, 4ULL * kWords, [&](uint64_t begin, uint64_t end, Mismatches& mine) {
        for (uint64_t i = begin; i < end; ++i) {
          const auto p = static_cast<uint32_t>(first + i);
          mine.check(p, (results[i / 4] >> (8 * (i % 4))) & 0xFFU, Function::of(p));
        }
      }));
    }
    EXPECT_EQ(all.checked, 1ULL << 32);
    EXPECT_EQ(all.count, 0U) << all;
  }
};

TEST_F(CudaNumerics, EncodeE4m3OfAllFloats) {
  compare_all_bytes<Encode<E4m3>>();
}
TEST_F(CudaNumerics, EncodeE5m2OfAllFloats) {
  compare_all_bytes<Encode<E5m2>>();
}

TEST_F(CudaNumerics, EncodeWithNanRule) {
  compare_dense<EncodeWithNanRule<E4m3>>();
  compare_dense<EncodeWithNanRule<E5m2>>();
}

TEST_F(CudaNumerics, Decode) {
  compare_dense<Decode<E4m3>>();
  compare_dense<Decode<E5m2>>();
}

TEST_F(CudaNumerics, Float16) {
  compare_dense<RoundTo16<Bf16>>();
  compare_dense<RoundTo16<Fp16>>();
  compare_dense<From16<Bf16>>();
  compare_dense<From16<Fp16>>();
}

TEST_F(CudaNumerics, Ue8m0) {
  compare_dense<Ue8m0>();
}

TEST_F(CudaNumerics, MakeScale) {
  compare_dense<MakeScale<FloorKind::none, BoundKind::none, ScaleEncoding::f32>>();
  compare_dense<MakeScale<FloorKind::amax, BoundKind::amax, ScaleEncoding::f32>>();
  compare_dense<MakeScale<FloorKind::scale, BoundKind::scale, ScaleEncoding::f32>>();
  compare_dense<MakeScale<FloorKind::if_zero, BoundKind::none, ScaleEncoding::f32>>();
  compare_dense<MakeScale<FloorKind::amax, BoundKind::none, ScaleEncoding::ue8m0>>();
  compare_dense<MakeScale<FloorKind::none, BoundKind::scale, ScaleEncoding::ue8m0_f32>>();
}

TEST_F(CudaNumerics, Quotient) {
  compare_dense<IeeeQuotient<Quotient::divide>>();
  compare_dense<IeeeQuotient<Quotient::reciprocal>>();
}

TEST_F(CudaNumerics, FastQuotient) {
  compare_dense<Fast>();
  compare_dense<FastMagnitude>();
  compare_dense<IsFastValid>();
}

TEST_F(CudaNumerics, Exp) {
  compare_dense<Exp>();
}

TEST_F(CudaNumerics, Activations) {
  compare_dense<Silu>();
  compare_dense<SiluQuotient>();
  compare_dense<SiluProduct>();
  compare_dense<GeluTanh>();
  compare_dense<Products>();
  compare_dense<SwigluClamped>();
}

TEST_F(CudaNumerics, RmsNorm) {
  compare_dense<RmsFactor>();
  compare_dense<AddSquareAndNorm>();
}

}  // namespace
}  // namespace rowscale::numerics
