// The SIMD targets: this file is compiled again for each by Highway's foreach_target.h. Only
// targets with a native fma are built (below them Highway's MulAdd rounds twice), so SSE is left
// out and the scalar reference runs there. Highway's mandatory baseline stays empty.
#include "cpu/kernels.hpp"

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3 | HWY_SCALAR | HWY_EMU128))
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd_kernels.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After foreach_target.h, because they are compiled per target.
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#include "cpu/simd/matmul-inl.h"
#include "cpu/simd/producers-inl.h"
#include "cpu/simd/quantize-inl.h"
#include "cpu/simd/scales-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rowscale::cpu::HWY_NAMESPACE {

template <class T>
void Fill(Kernels* k, int t) {
  k->absmax[t] = Absmax<T>;
  k->encode[0][t] = Encode<E4m3, T>;
  k->encode[1][t] = Encode<E5m2, T>;
  k->decode[0][t] = Decode<E4m3, T>;
  k->decode[1][t] = Decode<E5m2, T>;
  k->encode_columns[0][t] = EncodeColumns<E4m3, T>;
  k->encode_columns[1][t] = EncodeColumns<E5m2, T>;
  k->checkpoint_codes[t] = CheckpointCodes<T>;
  k->widen[t] = Widen<T>;
  k->add[t] = Add<T>;
  k->sum_squares[t] = SumSquares<T>;
  k->norm[t] = Norm<T, T>;
  k->norm_of_floats[t] = Norm<float, T>;
  k->gated[t] = Gated<T>;
  k->silu_unrounded[t] = SiluUnrounded<T>;
  k->relu2[t] = Relu2<T>;
  k->swiglu[t] = Swiglu<T>;
}

Kernels MakeKernels(Target target) {
  Kernels k{};
  k.target = target;
  k.make_scales = MakeScales;
  k.make_divisors = MakeDivisors;
  k.decode_columns[0] = DecodeColumns<E4m3>;
  k.decode_columns[1] = DecodeColumns<E5m2>;
  k.add_products = AddProducts;
  Fill<float>(&k, index_of(DType::f32));
  Fill<Fp16>(&k, index_of(DType::f16));
  Fill<Bf16>(&k, index_of(DType::bf16));
  return k;
}

}  // namespace rowscale::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rowscale::cpu {

bool has_simd_kernels([[maybe_unused]] Target target) {
#if HWY_TARGETS & HWY_AVX2
  if (target == Target::avx2) return true;
#endif
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::avx512) return true;
#endif
  return false;
}

// Each table is made by code of its own target, so only where the machine runs it.
const Kernels& simd_kernels([[maybe_unused]] Target target) {
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::avx512) {
    static const Kernels avx512 = N_AVX3::MakeKernels(Target::avx512);
    return avx512;
  }
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == Target::avx2) {
    static const Kernels avx2 = N_AVX2::MakeKernels(Target::avx2);
    return avx2;
  }
#endif
  return scalar_kernels();
}

}  // namespace rowscale::cpu
#endif  // HWY_ONCE
