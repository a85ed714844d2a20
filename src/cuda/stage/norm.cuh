// Rows that RMSNorm makes. A norm needs its whole row before it makes an element, so its kernels
// (kernel/norm_*.cuh) ask for what other sources do not have: the summands of a row, and elements
// for a factor.
#pragma once

#include "cuda/device/words.cuh"
#include "cuda/stage/access.cuh"
#include "cuda/stage/chunk.cuh"
#include "cuda/stage/scale.cuh"
#include "numerics/quotient.hpp"
#include "numerics/rms_norm.hpp"
#include "plan/source.hpp"

namespace rowscale::cuda {

// The calls for which fast_rms_factor is numerics::rms_factor.
inline constexpr int64_t kMostCommonHidden = int64_t{1} << 23;
inline constexpr float kLeastCommonEps = 0x1p-100F;
inline constexpr float kMostCommonEps = 0x1p20F;

// numerics::rms_factor without a branch that depends on the sum. Each step is correctly rounded as
// there: a sum so small that its mean would lose bits is scaled first, and that mean then is too
// small to change eps. Every sum that matters: CudaCodec.FastRmsFactor.
__device__ __forceinline__ float fast_rms_factor(float sum, const numerics::FastDivisor& hidden,
                                                 float eps) {
  constexpr float kSmall = 0x1p-60F;
  constexpr float kUp = 0x1p64F;
  const bool is_small = sum < kSmall;
  const float scaled = is_small ? numerics::mul(sum, kUp) : sum;
  float mean = numerics::fast_quotient_in_range(scaled, hidden);
  mean = is_small ? numerics::mul(mean, 1.0F / kUp) : mean;
  mean = sum == numerics::infinity() ? sum : mean;
  const float v = numerics::add(mean, eps);
  // The machine's approximation and one step, as __fsqrt_rn has it in this range.
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  const float q = numerics::mul(v, r);
  const float root = numerics::fma(numerics::fma(-q, q, v), numerics::mul(r, 0.5F), q);
  const float factor = reciprocal_of_valid(root);
  return v == numerics::infinity() ? 0.0F : factor;
}

// The tensors of a norm. z is x, or r(x + residual), which replaces the residual.
template <class T, class Access>
class NormRows {
 public:
  using Rows = Access;
  using Index = typename Access::Index;
  using Chunk = typename Held<T>::Chunk;
  using Amax = typename Held<T>::Amax;
  using Raw = Chunk;
  static constexpr plan::SourceKind kKind = plan::SourceKind::rms_norm;

  NormRows(const plan::Source& source, plan::GpuLoads loads)
      : x_(plan::RowView(source.x), loads),
        residual_(view_of(source.norm.residual), loads),
        row_out_(view_of(source.row_out), loads),
        weight_(static_cast<const std::byte*>(source.norm.weight.data)),
        weight_dtype_(source.norm.weight.dtype),
        hidden_(source.x.columns()),
        divisor_(numerics::make_fast_divisor(static_cast<float>(hidden_ > 0 ? hidden_ : 1))),
        eps_(source.norm.eps),
        is_common_(hidden_ < kMostCommonHidden && eps_ >= kLeastCommonEps &&
                   eps_ <= kMostCommonEps),
        form_(source.norm.form),
        has_residual_(source.norm.residual.data != nullptr),
        sums_unrounded_(has_residual_ && source.residual_sum == plan::ResidualSum::unrounded),
        is_kept_(source.row_out.data != nullptr) {}

  // The tensors as they lie.
  [[nodiscard]] __device__ __forceinline__ const Access& x_rows() const { return x_; }
  [[nodiscard]] __device__ __forceinline__ const Access& residual_rows() const { return residual_; }
  [[nodiscard]] __device__ __forceinline__ const Access& rows_out() const { return row_out_; }

  [[nodiscard]] __device__ __forceinline__ bool has_residual() const { return has_residual_; }
  [[nodiscard]] __device__ __forceinline__ bool is_kept() const { return is_kept_; }
  // Profile vllm: plan::ResidualSum::unrounded.
  [[nodiscard]] __device__ __forceinline__ bool sums_unrounded() const { return sums_unrounded_; }

  [[nodiscard]] __device__ __forceinline__ Chunk x(Index row, Index column, Index count) const {
    return Held<T>::of_memory(x_.template load<T>(row, column, count));
  }
  [[nodiscard]] __device__ __forceinline__ Chunk residual(Index row, Index column,
                                                          Index count) const {
    return Held<T>::of_memory(residual_.template load<T>(row, column, count));
  }
  __device__ __forceinline__ void store_residual(Index row, Index column, Index count,
                                                 const Chunk& z) const {
    residual_.template store<T>(row, column, count, Held<T>::to_memory(z));
  }
  __device__ __forceinline__ void keep(Index row, Index column, Index count,
                                       const Chunk& chunk) const {
    row_out_.template store<T>(row, column, count, Held<T>::to_memory(chunk));
  }
  // r(x + residual).
  static __device__ __forceinline__ Chunk sum(const Chunk& x, const Chunk& residual) {
    Chunk z;
    if constexpr (sizeof(T) == 2) {
#pragma unroll
      for (int i = 0; i < plan::kChunk / 2; ++i) z.w[i] = Pair<T>::add(x.w[i], residual.w[i]);
    } else {
#pragma unroll
      for (int i = 0; i < plan::kChunk; ++i) {
        z.v[i] = numerics::canonical(numerics::add(x.v[i], residual.v[i]));
      }
    }
    return z;
  }

  // What z is multiplied by.
  [[nodiscard]] __device__ __forceinline__ float factor(float sum_of_squares) const {
    return is_common_ ? fast_rms_factor(sum_of_squares, divisor_, eps_)
                      : numerics::rms_factor(sum_of_squares, hidden_, eps_);
  }

  // 8 weights in the dtype of x, at a column that is a multiple of 8 and an aligned address. An
  // ordinary load: the compiler may have several of them in flight.
  [[nodiscard]] __device__ __forceinline__ Words<16> weight_words(Index column) const {
    const uint4 v = *reinterpret_cast<const uint4*>(weight_ + int64_t{column} * sizeof(T));
    return {{v.x, v.y, v.z, v.w}};
  }
  // A weight of any dtype at any address.
  [[nodiscard]] __device__ __forceinline__ float weight(Index column) const {
    switch (weight_dtype_) {
      case DType::f32:
        return plan::load_as<float>(weight_ + int64_t{column} * 4);
      case DType::f16:
        return numerics::to_f32(
            numerics::Fp16{plan::load_as<uint16_t>(weight_ + int64_t{column} * 2)});
      default:
        return numerics::to_f32(
            numerics::Bf16{plan::load_as<uint16_t>(weight_ + int64_t{column} * 2)});
    }
  }

  // Of 16-bit elements and weights. The product of two of them, rounded once, is that of fp32
  // rounded again: it is exact in fp32, or less than half the smallest bf16.
  static __device__ __forceinline__ Chunk standard(const Chunk& z, float factor,
                                                   const Words<16>& weight) {
    float v[plan::kChunk];
    Held<T>::values(z, v);
#pragma unroll
    for (float& value : v) value = numerics::mul(value, factor);
    Chunk chunk = Held<T>::round(v);
#pragma unroll
    for (int i = 0; i < plan::kChunk / 2; ++i) {
      chunk.w[i] = Pair<T>::mul(chunk.w[i], weight.w[i]);
    }
    return chunk;
  }
  static __device__ __forceinline__ Chunk gemma(const Chunk& z, float factor,
                                                const Words<16>& weight) {
    float v[plan::kChunk];
    float w[plan::kChunk];
    Held<T>::values(z, v);
    Held<T>::values(weight, w);
#pragma unroll
    for (int i = 0; i < plan::kChunk; ++i) v[i] = numerics::normed_gemma(v[i], factor, w[i]);
    return Held<T>::round(v);
  }

  // The chunks k of which is_there(k), by weight_of(k). The form is asked for once.
  template <int kChunks, class IsThere, class WeightOf>
  __device__ __forceinline__ void norm(float factor, Chunk (&chunk)[kChunks],
                                       const IsThere& is_there, const WeightOf& weight_of) const {
    if (form_ == NormForm::standard) {
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        if (is_there(k)) chunk[k] = standard(chunk[k], factor, weight_of(k));
      }
    } else {
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        if (is_there(k)) chunk[k] = gemma(chunk[k], factor, weight_of(k));
      }
    }
  }

  // One element, before its last rounding, of any weight.
  [[nodiscard]] __device__ __forceinline__ float element(float z, float factor,
                                                         float weight) const {
    return form_ == NormForm::gemma ? numerics::normed_gemma(z, factor, weight)
                                    : numerics::normed<T>(z, factor, weight);
  }

  static __device__ __forceinline__ void values(const Chunk& chunk, float (&v)[plan::kChunk]) {
    Held<T>::values(chunk, v);
  }

 private:
  static plan::RowView view_of(const TensorView& tensor) {
    return tensor.data == nullptr ? plan::RowView() : plan::RowView(tensor);
  }

  Access x_;
  Access residual_;
  Access row_out_;
  const std::byte* weight_;
  DType weight_dtype_;
  int64_t hidden_;
  numerics::FastDivisor divisor_;  // by hidden
  float eps_;
  bool is_common_;
  NormForm form_;
  bool has_residual_;
  bool sums_unrounded_;
  bool is_kept_;
};

// Chunks of a unit, encoded and stored at place(k) by one choice of the division: with a choice a
// chunk, the next one's work would wait behind each branch.
template <class Codec, int kCount, class Call, class Chunk, class Divisor, class PlaceOf>
__device__ __forceinline__ void store_chunks(const Call& call, const Chunk (&chunk)[kCount],
                                             const Divisor& divisor, const PlaceOf& place) {
  if (__builtin_expect(divisor.division == Division::fast, 1)) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) call.template store_held<Codec>(chunk[k], divisor, place(k));
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k) call.template store_held<Codec>(chunk[k], divisor, place(k));
  }
}

}  // namespace rowscale::cuda
