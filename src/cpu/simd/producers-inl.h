// RMSNorm and the activations over contiguous elements. Compiled once per target. The formulas are
// those of numerics/{exp,activation,rms_norm}.hpp, operation by operation.
#if defined(ROWSCALE_CPU_SIMD_PRODUCERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ROWSCALE_CPU_SIMD_PRODUCERS_INL_H_
#undef ROWSCALE_CPU_SIMD_PRODUCERS_INL_H_
#else
#define ROWSCALE_CPU_SIMD_PRODUCERS_INL_H_
#endif

#include <algorithm>

#include "cpu/kernels.hpp"
#include "cpu/simd/float-inl.h"
#include "numerics/activation.hpp"
#include "numerics/exp.hpp"
#include "numerics/rms_norm.hpp"

HWY_BEFORE_NAMESPACE();
namespace rowscale::cpu::HWY_NAMESPACE {

HWY_INLINE VF Constant(float x) {
  return hn::Set(df, x);
}

template <class T>
HWY_NOINLINE void Widen(const void* x, int64_t n, float* y) {
  ForVectors(n, [&](int64_t i, int64_t count) HWY_ATTR {
    const VF v = LoadF32<T>(At<T>(x, i), count);
    if (count == kLanes) {
      hn::StoreU(v, df, y + i);
    } else {
      alignas(64) float whole[kLanes];
      hn::Store(v, df, whole);
      std::copy_n(whole, count, y + i);
    }
  });
}

template <class T>
HWY_NOINLINE void Add(const void* x, const void* residual, int64_t n, void* z) {
  ForVectors(n, [&](int64_t i, int64_t count) HWY_ATTR {
    const VF sum = hn::Add(LoadF32<T>(At<T>(x, i), count), LoadF32<T>(At<T>(residual, i), count));
    StoreF32<T>(sum, At<T>(z, i), count);
  });
}

// A vector holds as many chunks side by side as it has lanes: element i of each is a gather with a
// stride of a chunk. Zeros behind the end of the row change no sum.
template <class T>
HWY_NOINLINE void SumSquares(const void* z, int64_t n, float* lanes) {
  constexpr int64_t kChunk = numerics::kTreeChunk;
  constexpr int64_t kRound = kChunk * numerics::kTreeLanes;
  alignas(64) float values[kRound];
  const VI stride = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(kChunk)));
  for (int64_t begin = 0; begin < n; begin += kRound) {
    const int64_t count = std::min(kRound, n - begin);
    const int64_t step = kChunk * kLanes;
    const int64_t padded = (count + step - 1) / step * step;
    std::fill(values + count, values + padded, 0.0F);
    Widen<T>(At<T>(z, begin), count, values);
    for (int64_t c = 0; c < padded; c += step) {
      VF chunks = hn::Zero(df);
      for (int64_t i = 0; i < kChunk; ++i) {
        const VF v = hn::GatherIndex(df, values + c + i, stride);
        chunks = hn::MulAdd(v, v, chunks);
      }
      float* lane = lanes + c / kChunk;
      hn::StoreU(hn::Add(hn::LoadU(df, lane), chunks), df, lane);
    }
  }
}

template <class Z, class T>
HWY_NOINLINE void Norm(const void* z, int64_t n, float factor, const float* weight, NormForm form,
                       void* y) {
  const VF t = Constant(factor);
  const VF one = Constant(1.0F);
  ForVectors(n, [&](int64_t i, int64_t count) HWY_ATTR {
    const VF scaled = hn::Mul(LoadF32<Z>(At<Z>(z, i), count), t);
    const VF w = LoadF32<float>(At<float>(static_cast<const void*>(weight), i), count);
    const VF result = form == NormForm::gemma ? hn::Mul(scaled, hn::Add(one, w))
                                              : hn::Mul(RoundThrough<T>(scaled), w);
    StoreF32<T>(result, At<T>(y, i), count);
  });
}

HWY_INLINE VF Exp(VF argument) {
  using C = numerics::ExpConstants;
  const VF rounder = Constant(C::kRounder);
  const VF x = hn::Min(hn::Max(argument, Constant(C::kLowest)), Constant(C::kHighest));
  const VF shifted = hn::MulAdd(x, Constant(C::kLog2E), rounder);
  const VF n = hn::Sub(shifted, rounder);
  VF f = hn::MulAdd(n, Constant(C::kMinusLn2High), x);
  f = hn::MulAdd(n, Constant(C::kMinusLn2Low), f);
  VF p = Constant(C::kC7);
  p = hn::MulAdd(p, f, Constant(C::kC6));
  p = hn::MulAdd(p, f, Constant(C::kC5));
  p = hn::MulAdd(p, f, Constant(C::kC4));
  p = hn::MulAdd(p, f, Constant(C::kC3));
  p = hn::MulAdd(p, f, Constant(C::kC2));
  p = hn::MulAdd(p, f, Constant(C::kC1));
  p = hn::MulAdd(p, f, Constant(C::kC0));
  const VI exponent = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, rounder));
  const VI half = hn::ShiftRight<1>(exponent);
  const VI bias = hn::Set(di, 127);
  const VF first = hn::BitCast(df, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const VF second = hn::BitCast(df, hn::ShiftLeft<23>(hn::Add(hn::Sub(exponent, half), bias)));
  const VF result = hn::Mul(hn::Mul(p, first), second);
  return hn::IfThenElse(hn::IsNaN(argument), argument, result);
}

HWY_INLINE VF Swish(VF g, VF alpha) {
  const VF w = hn::Mul(alpha, g);
  const VF t = hn::Abs(w);
  const VF e = hn::IfThenZeroElse(hn::Gt(t, Constant(numerics::kSwishCutoff)), Exp(hn::Neg(t)));
  const VF numerator = hn::IfThenElse(hn::Lt(w, hn::Zero(df)), hn::Mul(g, e), g);
  return hn::Div(numerator, hn::Add(Constant(1.0F), e));
}

HWY_INLINE VF GeluTanh(VF g) {
  const VF one = Constant(1.0F);
  const VF cubed = hn::Mul(hn::Mul(g, g), g);
  const VF y =
      hn::Mul(Constant(numerics::kGeluScale), hn::MulAdd(Constant(numerics::kGeluCubic), cubed, g));
  const VF e = hn::Add(Exp(hn::Add(y, y)), one);
  const VF h = hn::Sub(one, hn::Div(Constant(2.0F), e));
  return hn::Mul(hn::Mul(Constant(0.5F), g), hn::Add(one, h));
}

template <class T>
HWY_NOINLINE void Gated(const void* gate, const void* up, int64_t n, Gate gate_function, void* y) {
  ForVectors(n, [&](int64_t i, int64_t count) HWY_ATTR {
    const VF g = LoadF32<T>(At<T>(gate, i), count);
    const VF u = LoadF32<T>(At<T>(up, i), count);
    const VF a = gate_function == Gate::silu ? Swish(g, Constant(1.0F)) : GeluTanh(g);
    StoreF32<T>(hn::Mul(RoundThrough<T>(a), u), At<T>(y, i), count);
  });
}

template <class T>
HWY_NOINLINE void SiluUnrounded(const void* gate, const void* up, int64_t n, plan::SiluForm form,
                                float* y) {
  const VF one = Constant(1.0F);
  ForVectors(n, [&](int64_t i, int64_t count) HWY_ATTR {
    const VF g = LoadF32<T>(At<T>(gate, i), count);
    const VF u = LoadF32<T>(At<T>(up, i), count);
    const VF divisor = hn::Add(one, Exp(hn::Neg(g)));
    const VF silu =
        form == plan::SiluForm::product ? hn::Mul(g, hn::Div(one, divisor)) : hn::Div(g, divisor);
    StoreF32<float>(hn::Mul(silu, u), At<float>(static_cast<void*>(y), i), count);
  });
}

template <class T>
HWY_NOINLINE void Relu2(const void* x, int64_t n, void* y) {
  const VF zero = hn::Zero(df);
  ForVectors(n, [&](int64_t i, int64_t count) HWY_ATTR {
    const VF v = LoadF32<T>(At<T>(x, i), count);
    const VF square = hn::IfThenElseZero(hn::Gt(v, zero), hn::Mul(v, v));
    StoreF32<T>(hn::IfThenElse(hn::IsNaN(v), v, square), At<T>(y, i), count);
  });
}

template <class T>
HWY_NOINLINE void Swiglu(const void* x, int64_t n, float alpha, float limit, void* y) {
  const VF a = Constant(alpha);
  const VF high = Constant(limit);
  const VF low = Constant(-limit);
  ForVectors(n, [&](int64_t i, int64_t count) HWY_ATTR {
    // 2 * count elements; the second vector may be partly or wholly absent.
    const int64_t first = std::min(2 * count, kLanes);
    const VF v0 = LoadF32<T>(At<T>(x, 2 * i), first);
    const VF v1 = LoadF32<T>(At<T>(x, 2 * i + first), 2 * count - first);
    const VF gate = hn::ConcatEven(df, v1, v0);
    const VF up = hn::ConcatOdd(df, v1, v0);
    // Comparisons are false for NaN, which therefore stays.
    const VF g = hn::IfThenElse(hn::Gt(gate, high), high, gate);
    VF u = hn::IfThenElse(hn::Lt(up, low), low, up);
    u = hn::IfThenElse(hn::Gt(u, high), high, u);
    StoreF32<T>(hn::Mul(hn::Add(u, Constant(1.0F)), Swish(g, a)), At<T>(y, i), count);
  });
}

}  // namespace rowscale::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ROWSCALE_CPU_SIMD_PRODUCERS_INL_H_
