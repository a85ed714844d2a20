// e4m3 and e5m2 in vectors. Compiled once per target.
#if defined(ROWSCALE_CPU_SIMD_FP8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROWSCALE_CPU_SIMD_FP8_INL_H_
#undef ROWSCALE_CPU_SIMD_FP8_INL_H_
#else
#define ROWSCALE_CPU_SIMD_FP8_INL_H_
#endif

#include <bit>

#include "cpu/simd/float-inl.h"
#include "numerics/fp8.hpp"
#include "rowscale/types.hpp"

HWY_BEFORE_NAMESPACE();
namespace rowscale::cpu::HWY_NAMESPACE {

using numerics::E4m3;
using numerics::E5m2;

// Bits of `yes` where the mask has ones, of `no` elsewhere.
template <class V>
HWY_INLINE V BitSelect(V mask, V yes, V no) {
#if HWY_TARGET <= HWY_AVX3
  return hn::IfVecThenElse(mask, yes, no);  // one instruction, and bit by bit only here
#else
  return hn::Or(hn::And(mask, yes), hn::AndNot(mask, no));
#endif
}

template <class F>
HWY_INLINE VU NanCode(NanRule nan) {
  const uint32_t code = nan == NanRule::propagate    ? numerics::kNanCode
                        : nan == NanRule::clamp_high ? F::kMaxCode
                                                     : 0x80U | F::kMaxCode;
  return hn::Set(du, code);
}

// The code of each magnitude (>= 0, at most a little above MAX) in the lowest byte of its lane; the
// other bytes hold rubbish.
//
// Adding 2^(E + shift) to a value with exponent E leaves only the format's mantissa bits above the
// last place, so the addition rounds to nearest even, subnormals too if E is at least that of the
// smallest normal. The sum's low bits then hold k, the mantissa with its leading one, and
//   code = (biased E << mantissa bits) + k - C.
// The constant -C, taken modulo 256, is added to the magic number's own low bits: it is even and so
// does not disturb the rounding of ties.
template <class F>
HWY_INLINE VU EncodeMagnitudes(VF magnitude) {
  constexpr int kShift = 23 - F::kMantissaBits;
  constexpr uint32_t kMinNormal = static_cast<uint32_t>(127 - F::kBias + 1) << 23;
  constexpr uint32_t kOffset = static_cast<uint32_t>(127 - F::kBias + 1) << F::kMantissaBits;
  constexpr uint32_t kMagic = (uint32_t{kShift} << 23) + (256U - kOffset % 256U);
  static_assert(kOffset % 2 == 0);

  // As integers, because the patterns of non-negative floats are in order.
  const VI value = hn::BitCast(di, magnitude);
  const VI exponent = hn::And(hn::Max(value, hn::Set(di, int32_t{kMinNormal})),
                              hn::Set(di, int32_t{numerics::kInfinity32}));
  const VI magic = hn::Add(exponent, hn::Set(di, int32_t{kMagic}));
  const VF sum = hn::Add(magnitude, hn::BitCast(df, magic));
  return hn::Add(hn::BitCast(du, sum), hn::BitCast(du, hn::ShiftRight<kShift>(exponent)));
}

// The code of any float, alone in its lane.
template <class F>
HWY_INLINE VU EncodeLanes(VF y, VU nan_code) {
  const VU bits = hn::BitCast(du, y);
  const VU code = EncodeMagnitudes<F>(hn::Min(hn::Abs(y), hn::Set(df, F::kMax)));
  const VU signed_code = BitSelect(hn::Set(du, 0x7FU), code, hn::ShiftRight<24>(bits));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(y)), nan_code, signed_code);
}

HWY_INLINE void StoreCodes(VU codes, uint8_t* p) {
  hn::StoreU(hn::TruncateTo(d8, codes), d8, p);
}

HWY_INLINE void StoreCodes(VU codes, uint8_t* p, int64_t count) {
  if (HWY_LIKELY(count == kLanes)) {
    StoreCodes(codes, p);
    return;
  }
  uint8_t whole[kLanes];
  StoreCodes(codes, whole);
  std::memcpy(p, whole, static_cast<size_t>(count));
}

// Through fp16, which holds every value of both formats: e5m2 is its upper byte; e4m3, moved to the
// place of its exponent, is 2^8 too small.
template <class F>
HWY_INLINE VF DecodeLanes(const uint8_t* p) {
  const auto codes = hn::PromoteTo(d16, hn::LoadU(d8, p));
  if constexpr (std::is_same_v<F, E5m2>) {
    return hn::PromoteTo(df, hn::BitCast(dhalf, hn::ShiftLeft<8>(codes)));
  } else {
    const auto magnitude = hn::And(codes, hn::Set(d16, uint16_t{0x7F}));
    const auto sign = hn::ShiftLeft<8>(hn::Sub(codes, magnitude));
    const auto is_nan = hn::Eq(magnitude, hn::Set(d16, uint16_t{numerics::kNanCode}));
    const auto shifted = hn::Or(hn::ShiftLeft<7>(magnitude), sign);
    const auto half = hn::IfThenElse(is_nan, hn::Set(d16, numerics::kCanonicalNan16), shifted);
    return hn::Mul(hn::PromoteTo(df, hn::BitCast(dhalf, half)), hn::Set(df, 256.0F));
  }
}

template <class F>
HWY_INLINE VF DecodeLanes(const uint8_t* p, int64_t count) {
  if (HWY_LIKELY(count == kLanes)) return DecodeLanes<F>(p);
  uint8_t whole[kLanes] = {};
  std::memcpy(whole, p, static_cast<size_t>(count));
  return DecodeLanes<F>(whole);
}

}  // namespace rowscale::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROWSCALE_CPU_SIMD_FP8_INL_H_
