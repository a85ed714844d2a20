// absmax, encode and decode over contiguous elements. Compiled once per target.
#if defined(ROWSCALE_CPU_SIMD_QUANTIZE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROWSCALE_CPU_SIMD_QUANTIZE_INL_H_
#undef ROWSCALE_CPU_SIMD_QUANTIZE_INL_H_
#else
#define ROWSCALE_CPU_SIMD_QUANTIZE_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>

#include "cpu/kernels.hpp"
#include "cpu/simd/fp8-inl.h"
#include "cpu/simd/scales-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rowscale::cpu::HWY_NAMESPACE {

// The largest pattern of |x| that is no NaN, as an integer: patterns of magnitudes are in order.
// 16-bit types stay 16-bit, with twice the elements a vector.
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
    // As integers: a comparison of subnormal numbers is slow on some machines.
    const float magnitude = ToMagnitude<T>(max);
    if (std::bit_cast<int32_t>(magnitude) > std::bit_cast<int32_t>(*amax)) *amax = magnitude;
  }
}

// A group's divisor in all lanes.
struct DivisorLanes {
  HWY_INLINE DivisorLanes(const Divisors& d, int64_t group)
      : s(hn::Set(df, d.s[group])),
        high(hn::Set(df, d.high[group])),
        low(hn::Set(df, d.low[group])),
        least(hn::Set(df, d.least[group])),
        most(hn::Mul(least, hn::Set(df, numerics::kMostQuotient / numerics::kLeastQuotient))),
        largest(hn::Set(di, d.largest[group])) {}
  VF s, high, low, least, most;
  VI largest;
};

// Codes of x / s for magnitudes of x that are at least `least`, in the lowest bytes; what a NaN or,
// over an infinite scale, an infinity gives is left to the caller.
template <class F, Division kDivision>
HWY_INLINE VU DivideMagnitudes(VF x, const DivisorLanes& d) {
  if constexpr (kDivision == Division::fast_clamped) x = hn::Min(x, d.most);
  VF q = hn::MulAdd(x, d.high, hn::Mul(x, d.low));
  if constexpr (kDivision == Division::fast_clamped) q = hn::Min(q, hn::Set(df, F::kMax));
  return EncodeMagnitudes<F>(q);
}

// kLanes elements.
template <class F, class T, Division kDivision>
HWY_INLINE void EncodeVector(const std::byte* p, const DivisorLanes& d, VU nan_code,
                             uint8_t* codes) {
  const VF x = LoadF32<T>(p);
  if constexpr (kDivision == Division::exact) {
    StoreCodes(EncodeLanes<F>(hn::Div(x, d.s), nan_code), codes);
  } else if constexpr (kDivision == Division::reciprocal) {
    const VF r = hn::Div(hn::Set(df, 1.0F), d.s);
    StoreCodes(EncodeLanes<F>(hn::Mul(x, r), nan_code), codes);
  } else {
    const VF magnitude = hn::Abs(x);
    const auto is_nan = hn::Gt(hn::BitCast(di, magnitude), d.largest);
    VF dividend = hn::Max(magnitude, d.least);
    if constexpr (kDivision == Division::fast_scaled) {
      dividend = hn::Mul(dividend, hn::Set(df, numerics::kShrink));
    }
    const VU magnitude_code = DivideMagnitudes<F, kDivision>(dividend, d);
    const VU sign = hn::ShiftRight<24>(hn::BitCast(du, x));
    const VU code = BitSelect(hn::Set(du, 0x7FU), magnitude_code, sign);
    StoreCodes(hn::IfThenElse(hn::RebindMask(du, is_nan), nan_code, code), codes);
  }
}

// 2 * kLanes bf16 elements. A 32-bit lane holds two: its upper half is the magnitude of the odd one
// as fp32 at once, and the even one's after a shift. Sign, NaN and the least magnitude are looked
// at in 16-bit lanes, twice as many a vector.
template <class F, Division kDivision>
HWY_INLINE void EncodeBf16Pairs(const std::byte* p, const DivisorLanes& d, VU nan_code,
                                uint8_t* codes) {
  const hn::RepartitionToNarrow<DU> d16x2;
  const hn::RebindToSigned<decltype(d16x2)> di16x2;
  const hn::Rebind<uint8_t, decltype(d16x2)> d8x2;
  const auto in_both_halves = [&](VU upper) HWY_ATTR {
    return hn::BitCast(d16x2, hn::Or(upper, hn::ShiftRight<16>(upper)));
  };
  const VU upper_half = hn::Set(du, 0xFFFF0000U);
  // Cut to bf16, it is still above half of the least.
  const auto least = in_both_halves(hn::And(hn::BitCast(du, d.least), upper_half));
  const auto largest = in_both_halves(hn::And(hn::BitCast(du, d.largest), upper_half));
  const auto nan16 = in_both_halves(hn::ShiftLeft<16>(nan_code));

  const auto x = hn::LoadU(d16x2, reinterpret_cast<const uint16_t*>(p));
  const auto magnitude = hn::And(x, hn::Set(d16x2, uint16_t{0x7FFF}));
  const auto is_nan =
      hn::RebindMask(d16x2, hn::Gt(hn::BitCast(di16x2, magnitude), hn::BitCast(di16x2, largest)));
  auto dividend = hn::Max(magnitude, least);
  if constexpr (kDivision == Division::fast_scaled) {
    dividend =
        hn::Sub(dividend, hn::Set(d16x2, uint16_t{64 << 7}));  // exponents: times numerics::kShrink
  }
  const VU pairs = hn::BitCast(du, dividend);
  const VF even = hn::BitCast(df, hn::ShiftLeft<16>(pairs));
  const VF odd = hn::BitCast(df, hn::And(pairs, upper_half));

  const VU even_codes = DivideMagnitudes<F, kDivision>(even, d);
  const VU odd_codes = DivideMagnitudes<F, kDivision>(odd, d);
  const auto both =
      hn::OddEven(hn::BitCast(d16x2, hn::ShiftLeft<16>(odd_codes)), hn::BitCast(d16x2, even_codes));
  const auto signed_codes = BitSelect(hn::Set(d16x2, uint16_t{0x7F}), both, hn::ShiftRight<8>(x));
  const auto result = hn::IfThenElse(is_nan, nan16, signed_codes);
  hn::StoreU(hn::DemoteTo(d8x2, hn::BitCast(di16x2, result)), d8x2, codes);
}

template <class F, class T, Division kDivision>
HWY_INLINE void EncodeGroup(const std::byte* x, int64_t n, const DivisorLanes& d, VU nan_code,
                            int64_t ahead, uint8_t* codes) {
  constexpr bool kPairs =
      std::is_same_v<T, Bf16> && kDivision != Division::exact && kDivision != Division::reciprocal;
  constexpr int64_t kStep = kPairs ? 2 * kLanes : kLanes;
  const auto step = [&](const std::byte* p, uint8_t* out) HWY_ATTR {
    if constexpr (kPairs) {
      EncodeBf16Pairs<F, kDivision>(p, d, nan_code, out);
    } else {
      EncodeVector<F, T, kDivision>(p, d, nan_code, out);
    }
  };
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    const std::byte* p = x + i * int64_t{sizeof(T)};
    hwy::Prefetch(p + ahead);
    step(p, codes + i);
  }
  if (i < n) {
    alignas(64) std::byte in[kStep * sizeof(T)] = {};
    uint8_t out[kStep];
    std::memcpy(in, x + i * int64_t{sizeof(T)}, static_cast<size_t>(n - i) * sizeof(T));
    step(in, out);
    std::memcpy(codes + i, out, static_cast<size_t>(n - i));
  }
}

template <class F, class T>
HWY_NOINLINE void Encode(const void* x, int64_t n, int64_t group, const Divisors& divisors,
                         NanRule nan, int64_t ahead, uint8_t* codes) {
  const VU nan_code = NanCode<F>(nan);
  for (int64_t begin = 0, g = 0; begin < n; begin += group, ++g) {
    const std::byte* in = At<T>(x, begin);
    const int64_t count = std::min(group, n - begin);
    uint8_t* out = codes + begin;
    const DivisorLanes d(divisors, g);
    switch (divisors.division[g]) {
      case Division::reciprocal:
        EncodeGroup<F, T, Division::reciprocal>(in, count, d, nan_code, ahead, out);
        break;
      case Division::fast:
        EncodeGroup<F, T, Division::fast>(in, count, d, nan_code, ahead, out);
        break;
      case Division::fast_clamped:
        EncodeGroup<F, T, Division::fast_clamped>(in, count, d, nan_code, ahead, out);
        break;
      case Division::fast_scaled:
        EncodeGroup<F, T, Division::fast_scaled>(in, count, d, nan_code, ahead, out);
        break;
      case Division::exact:
        EncodeGroup<F, T, Division::exact>(in, count, d, nan_code, ahead, out);
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

// numerics::checkpoint_code. The quotient is rounded to T, so a shortcut for it would have to be
// right in T, not only in its code: the processor divides.
template <class T>
HWY_NOINLINE void CheckpointCodes(const void* x, int64_t n, int64_t group, const float* scales,
                                  uint8_t* codes) {
  const VU nan_code = hn::Set(du, uint32_t{numerics::kNanCode});
  for (int64_t begin = 0; begin < n; begin += group, ++scales) {
    const VF s = hn::Set(df, *scales);
    ForVectors(std::min(group, n - begin), [&](int64_t i, int64_t count) HWY_ATTR {
      const VF q = RoundThrough<T>(hn::Div(LoadF32<T>(At<T>(x, begin + i), count), s));
      StoreCodes(EncodeLanes<E4m3>(hn::Add(q, hn::Zero(df)), nan_code), codes + begin + i, count);
    });
  }
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
