// Scales and divisors of many groups at a time. Compiled once per target. The rule is
// numerics::make_scale, operation by operation.
#if defined(ROWSCALE_CPU_SIMD_SCALES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROWSCALE_CPU_SIMD_SCALES_INL_H_
#undef ROWSCALE_CPU_SIMD_SCALES_INL_H_
#else
#define ROWSCALE_CPU_SIMD_SCALES_INL_H_
#endif

#include "cpu/kernels.hpp"
#include "cpu/simd/float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rowscale::cpu::HWY_NAMESPACE {

HWY_INLINE VF ApplyBound(VF x, float bound) {
  if (numerics::is_nan(bound)) return x;
  return hn::Min(x, hn::Set(df, bound > 0.0F ? bound : 0.0F));
}

// As integers: their patterns are in order, and subnormal numbers cost nothing.
HWY_INLINE VF MaxOfMagnitudes(VF a, VF b) {
  return hn::BitCast(df, hn::Max(hn::BitCast(di, a), hn::BitCast(di, b)));
}

HWY_INLINE VF RoundUpUe8m0(VF s) {
  const VU bits =
      hn::BitCast(du, hn::Max(s, hn::BitCast(df, hn::Set(du, numerics::kUe8m0FloorBits))));
  // A mantissa bit carries into the exponent; the largest exponent is infinity's.
  const VU up = hn::Add(bits, hn::Set(du, 0x7FFFFFU));
  return hn::BitCast(df, hn::And(up, hn::Set(du, numerics::kInfinity32)));
}

// Far below every scale for which the fast quotients are valid, far above subnormal numbers.
inline constexpr float kTiny = 0x1p-100F;

// No lane is NaN.
HWY_INLINE VF MakeScale(const numerics::ScaleRule& rule, VF amax) {
  const VF floor = hn::Set(df, rule.floor_value);
  if (rule.bound == BoundKind::amax) amax = ApplyBound(amax, rule.bound_value);
  if (rule.floor == FloorKind::amax) amax = MaxOfMagnitudes(amax, floor);
  // A larger floor hides what this changes: a division of a subnormal number is slow.
  if (rule.floor == FloorKind::scale && rule.floor_value >= kTiny) {
    amax = MaxOfMagnitudes(amax, hn::Set(df, kTiny));
  }
  VF s = hn::Div(amax, hn::Set(df, rule.max));
  if (rule.bound == BoundKind::scale) s = ApplyBound(s, rule.bound_value);
  if (rule.floor == FloorKind::scale) s = hn::Max(s, floor);
  if (rule.floor == FloorKind::if_zero) {
    s = hn::IfThenElse(hn::Eq(s, hn::Zero(df)), floor, s);
  }
  return rule.encoding == ScaleEncoding::f32 ? s : RoundUpUe8m0(s);
}

// What an element can be, if it is known.
enum class Magnitude { any, bounded };

HWY_INLINE VI Lanes(Division division) {
  return hn::Set(di, static_cast<int32_t>(division));
}

template <Magnitude kMagnitude>
HWY_INLINE void MakeDivisor(Quotient quotient, VF s, VF amax, float max, int64_t i,
                            Divisors* divisors) {
  const VF one = hn::Set(df, 1.0F);
  const VF largest_fast = hn::Set(df, numerics::kFastQuotientHighest);
  const auto is_infinite = hn::Eq(s, hn::BitCast(df, hn::Set(du, numerics::kInfinity32)));
  const auto is_large =
      hn::And(hn::Gt(s, largest_fast), hn::Le(s, hn::Set(df, numerics::kShrunkHighest)));
  const VF shrink = hn::IfThenElse(is_large, hn::Set(df, numerics::kShrink), one);
  const VF divisor = hn::Mul(s, shrink);
  const VF high = hn::Div(one, divisor);
  // The numerator is exact. Of an infinite scale it is NaN, and 0 serves.
  const VF low =
      quotient == Quotient::reciprocal
          ? hn::Zero(df)
          : hn::IfThenZeroElse(is_infinite, hn::Div(hn::NegMulAdd(divisor, high, one), divisor));
  const VF least =
      hn::IfThenElse(is_infinite, one, hn::Mul(s, hn::Set(df, numerics::kLeastQuotient)));

  const auto choose = [](auto mask, Division yes, VI no) HWY_ATTR {
    return hn::IfThenElse(hn::RebindMask(di, mask), Lanes(yes), no);
  };
  const auto is_fast =
      hn::And(hn::Ge(s, hn::Set(df, numerics::kFastQuotientLowest)), hn::Le(s, largest_fast));
  VI division = Lanes(quotient == Quotient::reciprocal ? Division::reciprocal : Division::exact);
  division = choose(is_fast, Division::fast_clamped, division);
  if (kMagnitude == Magnitude::bounded) {
    const VF largest = hn::Mul(MaxOfMagnitudes(amax, hn::Set(df, kTiny)), shrink);
    const auto fits = hn::Le(hn::Mul(largest, high), hn::Set(df, max * numerics::kMaxSlack));
    division = choose(hn::And(fits, is_fast), Division::fast, division);
    division = choose(hn::And(fits, is_large), Division::fast_scaled, division);
  }
  division =
      choose(is_infinite,
             kMagnitude == Magnitude::bounded ? Division::fast : Division::fast_clamped, division);
  // Over an infinite scale infinity gives NaN, as NaN does.
  const VI infinity = hn::Set(di, int32_t{numerics::kInfinity32});
  const VI largest =
      hn::IfThenElse(hn::RebindMask(di, is_infinite), hn::Sub(infinity, hn::Set(di, 1)), infinity);

  hn::StoreU(s, df, divisors->s + i);
  hn::StoreU(high, df, divisors->high + i);
  hn::StoreU(low, df, divisors->low + i);
  hn::StoreU(least, df, divisors->least + i);
  hn::StoreU(largest, di, divisors->largest + i);
  hn::StoreU(division, di, reinterpret_cast<int32_t*>(divisors->division + i));
}

// The arrays have room for whole vectors, so the lanes behind `count` may be written.
static_assert(kMaxGroups % kLanes == 0);

HWY_NOINLINE void MakeScales(const numerics::ScaleRule& rule, Quotient quotient, const float* amax,
                             int64_t count, Divisors* divisors) {
  ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const VF a = LoadF32<float>(At<float>(static_cast<const void*>(amax), i), lanes);
    MakeDivisor<Magnitude::bounded>(quotient, MakeScale(rule, a), a, rule.max, i, divisors);
  });
}

HWY_NOINLINE void MakeDivisors(Quotient quotient, int64_t count, Divisors* divisors) {
  ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const VF s = LoadF32<float>(At<float>(static_cast<const void*>(divisors->s), i), lanes);
    MakeDivisor<Magnitude::any>(quotient, s, s, 0.0F, i, divisors);
  });
}

}  // namespace rowscale::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROWSCALE_CPU_SIMD_SCALES_INL_H_
