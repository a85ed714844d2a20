// Vectors of fp32 from and to f32, fp16 and bf16 memory of any alignment. Compiled once per target.
#if defined(ROWSCALE_CPU_SIMD_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROWSCALE_CPU_SIMD_FLOAT_INL_H_
#undef ROWSCALE_CPU_SIMD_FLOAT_INL_H_
#else
#define ROWSCALE_CPU_SIMD_FLOAT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "numerics/float16.hpp"

HWY_BEFORE_NAMESPACE();
namespace rowscale::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using numerics::Bf16;
using numerics::Fp16;

using DF = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<DF>;
using DI = hn::RebindToSigned<DF>;
using D16 = hn::Rebind<uint16_t, DF>;  // as many 16-bit lanes as there are floats
using DHalf = hn::Rebind<hwy::float16_t, DF>;
using D8 = hn::Rebind<uint8_t, DF>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;
using VI = hn::Vec<DI>;

constexpr DF df;
constexpr DU du;
constexpr DI di;
constexpr D16 d16;
constexpr DHalf dhalf;
constexpr D8 d8;

inline constexpr int64_t kLanes = HWY_MAX_BYTES / 4;  // exact for AVX2 and AVX-512

template <class T>
HWY_INLINE const std::byte* At(const void* data, int64_t i) {
  return static_cast<const std::byte*>(data) + i * int64_t{sizeof(T)};
}
template <class T>
HWY_INLINE std::byte* At(void* data, int64_t i) {
  return static_cast<std::byte*>(data) + i * int64_t{sizeof(T)};
}

template <class T>
HWY_INLINE VF LoadF32(const std::byte* p) {
  if constexpr (std::is_same_v<T, float>) {
    return hn::LoadU(df, reinterpret_cast<const float*>(p));
  } else if constexpr (std::is_same_v<T, Bf16>) {
    const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
    return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  } else {
    return hn::PromoteTo(df, hn::LoadU(dhalf, reinterpret_cast<const hwy::float16_t*>(p)));
  }
}

HWY_INLINE VF Canonical(VF v) {
  const VF nan = hn::BitCast(df, hn::Set(du, numerics::kCanonicalNan32));
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}

// The bf16 of each lane in its upper half; NaN is left to the caller. Ties go to even.
HWY_INLINE VU RoundBf16(VF v) {
  const VU bits = hn::BitCast(du, v);
  const VU lowest_kept = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  return hn::Add(bits, hn::Add(lowest_kept, hn::Set(du, 0x7FFFU)));
}

// Rounds to T; NaN in its canonical form.
template <class T>
HWY_INLINE void StoreF32(VF v, std::byte* p) {
  if constexpr (std::is_same_v<T, float>) {
    hn::StoreU(Canonical(v), df, reinterpret_cast<float*>(p));
  } else if constexpr (std::is_same_v<T, Bf16>) {
    const VU nan = hn::Set(du, uint32_t{numerics::kCanonicalNan16});
    const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
    const VU bits = hn::IfThenElse(is_nan, nan, hn::ShiftRight<16>(RoundBf16(v)));
    hn::StoreU(hn::TruncateTo(d16, bits), d16, reinterpret_cast<uint16_t*>(p));
  } else {
    // The conversion keeps the upper bits of a NaN: those of the canonical one are all ones.
    hn::StoreU(hn::DemoteTo(dhalf, Canonical(v)), dhalf, reinterpret_cast<hwy::float16_t*>(p));
  }
}

// r(x) as fp32; any NaN stays some NaN.
template <class T>
HWY_INLINE VF RoundThrough(VF v) {
  if constexpr (std::is_same_v<T, float>) {
    return v;
  } else if constexpr (std::is_same_v<T, Bf16>) {
    const VU kept = hn::And(RoundBf16(v), hn::Set(du, 0xFFFF0000U));
    return hn::IfThenElse(hn::IsNaN(v), v, hn::BitCast(df, kept));
  } else {
    return hn::PromoteTo(df, hn::DemoteTo(dhalf, v));
  }
}

// body(i, count) for vectors of kLanes elements; the last count may be smaller.
template <class Body>
HWY_INLINE void ForVectors(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, n - i);
}

// `count` elements, zeros behind them.
template <class T>
HWY_INLINE VF LoadF32(const std::byte* p, int64_t count) {
  if (HWY_LIKELY(count == kLanes)) return LoadF32<T>(p);
  alignas(64) std::byte whole[kLanes * sizeof(T)] = {};
  std::memcpy(whole, p, static_cast<size_t>(count) * sizeof(T));
  return LoadF32<T>(whole);
}

template <class T>
HWY_INLINE void StoreF32(VF v, std::byte* p, int64_t count) {
  if (HWY_LIKELY(count == kLanes)) {
    StoreF32<T>(v, p);
    return;
  }
  alignas(64) std::byte whole[kLanes * sizeof(T)];
  StoreF32<T>(v, whole);
  std::memcpy(p, whole, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace rowscale::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROWSCALE_CPU_SIMD_FLOAT_INL_H_
