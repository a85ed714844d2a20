// absmax, encode and decode over contiguous elements. Compiled once per target.
#if defined(ROWSCALE_CPU_SIMD_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROWSCALE_CPU_SIMD_QUANTIZE_INL_H_
#undef ROWSCALE_CPU_SIMD_QUANTIZE_INL_H_
#else
#define ROWSCALE_CPU_SIMD_QUANTIZE_INL_H_
#endif

#include <algorithm>

#include "cpu/kernels.hpp"
#include "cpu/simd/fp8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rowscale::cpu::HWY_NAMESPACE {

// The largest pattern of |x| that is no NaN, as an integer: patterns of magnitudes are in order. 16-bit
// types stay 16-bit, with twice the elements a vector.
template <class T>
HWY_INLINE int32_t MaxMagnitude(const void* x, int64_t n) {
  using Lane = std::conditional_t<std::is_same_v<T, float>, int32_t, int16_t>;
  constexpr Lane kMagnitude = std::is_same_v<T, float> ? Lane(0x7FFFFFFF) : Lane(0x7FFF);
  constexpr Lane kInfinity = std::is_same_v<T, float>  ? Lane(0x7F800000)
                             : std::is_same_v<T, Bf16> ? Lane(0x7F80)
                                                       : Lane(0x7C00);
  const hn::ScalableTag<Lane> d;
  constexpr int64_t kStep = HWY_MAX_BYTES / sizeof(Lane);
  const auto magnitude_mask = hn::Set(d, kMagnitude);
  const auto infinity = hn::Set(d, kInfinity);
  const auto raise = [&](auto max, const std::byte* p) HWY_ATTR {
    const auto v = hn::And(hn::LoadU(d, reinterpret_cast<const Lane*>(p)), magnitude_mask);
    return hn::Max(max, hn::IfThenZeroElse(hn::Gt(v, infinity), v));
  };

  auto max0 = hn::Zero(d);
  auto max1 = max0;
  int64_t i = 0;
  for (; i + 2 * kStep <= n; i += 2 * kStep) {
    max0 = raise(max0, At<T>(x, i));
    max1 = raise(max1, At<T>(x, i + kStep));
  }
  for (; i + kStep <= n; i += kStep) max0 = raise(max0, At<T>(x, i));
  if (i < n) {
    alignas(64) std::byte whole[HWY_MAX_BYTES] = {};
    std::memcpy(whole, At<T>(x, i), static_cast<size_t>(n - i) * sizeof(T));
    max0 = raise(max0, whole);
  }
  const auto max = hn::Max(max0, max1);
  if constexpr (std::is_same_v<T, float>) {
    return hn::GetLane(hn::MaxOfLanes(d, max));
  } else {
    const VI pairs = hn::BitCast(di, max);
    const VI lower = hn::And(pairs, hn::Set(di, 0xFFFF));
    return hn::GetLane(hn::MaxOfLanes(di, hn::Max(lower, hn::ShiftRight<16>(pairs))));
  }
}

template <class T>
HWY_INLINE float ToMagnitude(int32_t pattern) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(pattern);
  return numerics::to_f32(
      std::conditional_t<std::is_same_v<T, Bf16>, Bf16, Fp16>{static_cast<uint16_t>(pattern)});
}

template <class T>
HWY_NOINLINE void Absmax(const void* x, int64_t n, int64_t group, float* amax) {
  for (int64_t begin = 0; begin < n; begin += group, ++amax) {
    const int32_t max = MaxMagnitude<T>(At<T>(x, begin), std::min(group, n - begin));
    *amax = std::max(*amax, ToMagnitude<T>(max));
  }
}

template <Division kDivision>
HWY_INLINE VF Quotient1(VF x, VF s, VF r) {
  if constexpr (kDivision == Division::reciprocal) return hn::Mul(x, r);
  if constexpr (kDivision == Division::exact) return hn::Div(x, s);
  VF q0 = hn::Mul(x, r);
  if constexpr (kDivision == Division::fast_clamped) {
    const VF max = hn::Set(df, 0x1.fffffep127F);
    q0 = hn::Min(hn::Max(q0, hn::Neg(max)), max);  // NaN may become a number here: x brings it back
  }
  // fma(fma(q0, s, -x), -r, q0); the first is exact up to its sign, so NegMulAdd serves for the second.
  return hn::NegMulAdd(hn::MulSub(q0, s, x), r, q0);
}

template <class F, class T, Division kDivision>
HWY_INLINE void EncodeGroup(const std::byte* x, int64_t n, const Divisor& divisor, VU nan_code,
                            uint8_t* codes) {
  const VF s = hn::Set(df, divisor.s);
  const VF r = hn::Set(df, divisor.r);
  const auto one = [&](int64_t i, int64_t count) HWY_ATTR {
    const VF q = Quotient1<kDivision>(LoadF32<T>(x + i * int64_t{sizeof(T)}, count), s, r);
    StoreCodes(EncodeLanes<F>(q, nan_code), codes + i, count);
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) one(i, kLanes);
  if (i < n) one(i, n - i);
}

template <class F, class T>
HWY_NOINLINE void Encode(const void* x, int64_t n, int64_t group, const Divisor* divisors,
                         NanRule nan, uint8_t* codes) {
  const VU nan_code = NanCode<F>(nan);
  for (int64_t begin = 0; begin < n; begin += group, ++divisors) {
    const std::byte* in = At<T>(x, begin);
    const int64_t count = std::min(group, n - begin);
    uint8_t* out = codes + begin;
    switch (divisors->division) {
      case Division::reciprocal:
        EncodeGroup<F, T, Division::reciprocal>(in, count, *divisors, nan_code, out);
        break;
      case Division::fast:
        EncodeGroup<F, T, Division::fast>(in, count, *divisors, nan_code, out);
        break;
      case Division::fast_clamped:
        EncodeGroup<F, T, Division::fast_clamped>(in, count, *divisors, nan_code, out);
        break;
      case Division::exact:
        EncodeGroup<F, T, Division::exact>(in, count, *divisors, nan_code, out);
        break;
    }
  }
}

template <class F, class T>
HWY_NOINLINE void EncodeColumns(const void* x, int64_t n, const float* scales, Quotient quotient,
                                NanRule nan, uint8_t* codes) {
  const VU nan_code = NanCode<F>(nan);
  const VF one = hn::Set(df, 1.0F);
  ForVectors(n, [&](int64_t i, int64_t count) HWY_ATTR {
    const VF v = LoadF32<T>(At<T>(x, i), count);
    const VF s = LoadF32<float>(At<float>(static_cast<const void*>(scales), i), count);
    const VF q = quotient == Quotient::reciprocal ? hn::Mul(v, hn::Div(one, s)) : hn::Div(v, s);
    StoreCodes(EncodeLanes<F>(q, nan_code), codes + i, count);
  });
}

template <class F, class T>
HWY_NOINLINE void Decode(const uint8_t* codes, int64_t n, int64_t group, const float* scales,
                         void* y) {
  for (int64_t begin = 0; begin < n; begin += group, ++scales) {
    const VF s = hn::Set(df, *scales);
    ForVectors(std::min(group, n - begin), [&](int64_t i, int64_t count) HWY_ATTR {
      const VF v = hn::Mul(DecodeLanes<F>(codes + begin + i, count), s);
      StoreF32<T>(v, At<T>(y, begin + i), count);
    });
  }
}

}  // namespace rowscale::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROWSCALE_CPU_SIMD_QUANTIZE_INL_H_
