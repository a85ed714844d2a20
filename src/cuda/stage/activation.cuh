// Rows that an activation makes, as sources: silu_mul, gelu_tanh_mul, relu2, swiglu_clamped.
// docs/numerics.md section 5.
#pragma once

#include "cuda/device/words.cuh"
#include "cuda/stage/access.cuh"
#include "cuda/stage/chunk.cuh"
#include "cuda/stage/scale.cuh"
#include "numerics/activation.hpp"
#include "numerics/fast_silu.hpp"
#include "plan/source.hpp"

namespace rowscale::cuda {

// silu of a bf16 number, right after it is rounded to bf16. Where every one of them was tried
// (CudaCodec.FastSiluOfEveryBf16), with the machine's approximations of 2^x and 1 / x, which no
// document fixes to the bit; elsewhere with those that are.
__device__ __forceinline__ float fast_silu(float g) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
  return numerics::fast_silu(
      g,
      [](float x) {
        float e;
        asm("ex2.approx.ftz.f32 %0, %1;"
            : "=f"(e)
            : "f"(numerics::mul(x, numerics::ExpConstants::kLog2E)));
        return e;
      },
      [](float d) {
        float r;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
        return r;
      });
#else
  return numerics::fast_silu(
      g, [](float x) { return numerics::fast_exp(x); },
      [](float d) { return reciprocal_of_valid(d); });
#endif
}

// Where the inputs of element i of d lie in a row of x.
enum class Inputs {
  halves,  // i and d + i
  pairs,   // 2i and 2i + 1
  one,     // i
};

// The operations: an element before its last rounding, from fp32 inputs.
struct SiluMul {
  static constexpr plan::SourceKind kKind = plan::SourceKind::silu_mul;
  static constexpr Inputs kInputs = Inputs::halves;
  explicit SiluMul(const plan::Source& /*source*/) {}
  template <class T>
  __device__ __forceinline__ float element(float gate, float up) const {
    return numerics::silu_mul<T>(gate, up);
  }
};

struct GeluTanhMul {
  static constexpr plan::SourceKind kKind = plan::SourceKind::gelu_tanh_mul;
  static constexpr Inputs kInputs = Inputs::halves;
  explicit GeluTanhMul(const plan::Source& /*source*/) {}
  template <class T>
  __device__ __forceinline__ float element(float gate, float up) const {
    return numerics::gelu_tanh_mul<T>(gate, up);
  }
};

struct Relu2 {
  static constexpr plan::SourceKind kKind = plan::SourceKind::relu2;
  static constexpr Inputs kInputs = Inputs::one;
  explicit Relu2(const plan::Source& /*source*/) {}
  template <class T>
  __device__ __forceinline__ float element(float x, float /*none*/) const {
    return numerics::relu2(x);
  }
};

class SwigluClamp {
 public:
  static constexpr plan::SourceKind kKind = plan::SourceKind::swiglu_clamped;
  static constexpr Inputs kInputs = Inputs::pairs;
  explicit SwigluClamp(const plan::Source& source)
      : alpha_(source.swiglu.alpha), limit_(source.swiglu.limit) {}
  template <class T>
  __device__ __forceinline__ float element(float gate, float up) const {
    return numerics::swiglu_clamped(gate, up, alpha_, limit_);
  }

 private:
  float alpha_;
  float limit_;
};

// What a chunk of the result is made of, as it lies in memory.
template <class T>
struct InputWords {
  Words<plan::kChunk * sizeof(T)> first;
  Words<plan::kChunk * sizeof(T)> second;
};

// Rows of Operation's results, each rounded to T, and stored in row_out where there is one.
template <class Operation, class T, class Access>
class Activated {
 public:
  using Rows = Access;
  using Index = typename Access::Index;
  using Chunk = typename Held<T>::Chunk;
  using Amax = typename Held<T>::Amax;
  using Raw = InputWords<T>;
  static constexpr plan::SourceKind kKind = Operation::kKind;
  static constexpr int kInputBytes = sizeof(T);
  static constexpr int kMostThreads =
      kKind == plan::SourceKind::silu_mul && std::is_same_v<T, numerics::Bf16> ? 1280 : 1024;

  Activated(const plan::Source& source, plan::GpuLoads loads)
      : x_(plan::RowView(source.x), loads),
        row_out_(source.row_out.data == nullptr ? plan::RowView() : plan::RowView(source.row_out),
                 loads),
        operation_(source),
        half_(static_cast<Index>(source.x.columns() / 2)),
        is_kept_(source.row_out.data != nullptr) {}

  __device__ __forceinline__ Raw fetch(Index row, Index column, Index count) const {
    Raw raw = {};
    if constexpr (Operation::kInputs == Inputs::pairs) {
      raw.first = x_.template load<T>(row, 2 * column, 2 * count);
      raw.second = x_.template load<T>(row, 2 * column + plan::kChunk, 2 * count - plan::kChunk);
    } else {
      raw.first = x_.template load<T>(row, column, count);
      if constexpr (Operation::kInputs == Inputs::halves) {
        raw.second = x_.template load<T>(row, half_ + column, count);
      }
    }
    return raw;
  }
  __device__ __forceinline__ Chunk make(const Raw& raw, Index row, Index column,
                                        Index count) const {
    const Chunk chunk = apply(raw);
    if (is_kept_) row_out_.template store<T>(row, column, count, Held<T>::to_memory(chunk));
    return chunk;
  }
  static __device__ __forceinline__ void values(const Chunk& chunk, float (&v)[plan::kChunk]) {
    Held<T>::values(chunk, v);
  }

 private:
  __device__ __forceinline__ Chunk apply(const Raw& raw) const {
    if constexpr (kKind == plan::SourceKind::silu_mul && std::is_same_v<T, numerics::Bf16>) {
      return apply_fast_silu(raw);
    } else {
      float first[plan::kChunk];
      float second[plan::kChunk];
      Held<T>::values(Held<T>::of_memory(raw.first), first);
      Held<T>::values(Held<T>::of_memory(raw.second), second);
      float made[plan::kChunk];
      if constexpr (Operation::kInputs == Inputs::pairs) {
        constexpr int kHalf = plan::kChunk / 2;
#pragma unroll
        for (int i = 0; i < kHalf; ++i) {
          made[i] = operation_.template element<T>(first[2 * i], first[2 * i + 1]);
          made[kHalf + i] = operation_.template element<T>(second[2 * i], second[2 * i + 1]);
        }
      } else {
#pragma unroll
        for (int i = 0; i < plan::kChunk; ++i) {
          made[i] = operation_.template element<T>(first[i], second[i]);
        }
      }
      return Held<T>::round(made);
    }
  }
  static __device__ __forceinline__ Chunk apply_fast_silu(const Raw& raw) {
    float gate[plan::kChunk];
    Held<T>::values(Held<T>::of_memory(raw.first), gate);
#pragma unroll
    for (float& v : gate) v = fast_silu(v);
    Chunk chunk = Held<T>::round(gate);
    // The product of two bf16 is exact in fp32, or so small that both ways round it to nothing.
#pragma unroll
    for (int i = 0; i < plan::kChunk / 2; ++i) {
      chunk.w[i] = Pair<T>::mul(chunk.w[i], raw.second.w[i]);
    }
    return chunk;
  }

  Access x_;
  Access row_out_;
  Operation operation_;
  Index half_;
  bool is_kept_;
};

// silu_mul of profile vllm: products in fp32, never stored.
template <class T, class Access>
class UnroundedSilu {
 public:
  using Rows = Access;
  using Index = typename Access::Index;
  using Chunk = FloatChunk;
  using Amax = FloatAmax;
  using Raw = InputWords<T>;
  static constexpr plan::SourceKind kKind = plan::SourceKind::silu_mul;
  static constexpr plan::SiluForm kSilu = plan::SiluForm::product;  // stands for both
  static constexpr int kInputBytes = sizeof(T);
  static constexpr int kMostThreads = 1024;

  UnroundedSilu(const plan::Source& source, plan::GpuLoads loads)
      : x_(plan::RowView(source.x), loads),
        half_(static_cast<Index>(source.x.columns() / 2)),
        form_(source.silu) {}

  __device__ __forceinline__ Raw fetch(Index row, Index column, Index count) const {
    return {x_.template load<T>(row, column, count),
            x_.template load<T>(row, half_ + column, count)};
  }
  __device__ __forceinline__ Chunk make(const Raw& raw, Index /*row*/, Index /*column*/,
                                        Index /*count*/) const {
    float gate[plan::kChunk];
    Chunk up;
    Held<T>::values(Held<T>::of_memory(raw.first), gate);
    Held<T>::values(Held<T>::of_memory(raw.second), up.v);
#pragma unroll
    for (int i = 0; i < plan::kChunk; ++i) {
      const float silu = form_ == plan::SiluForm::product ? numerics::silu_product(gate[i])
                                                          : numerics::silu_quotient(gate[i]);
      up.v[i] = numerics::mul(silu, up.v[i]);
    }
    return up;
  }
  static __device__ __forceinline__ void values(const Chunk& chunk, float (&v)[plan::kChunk]) {
    Held<float>::values(chunk, v);
  }

 private:
  Access x_;
  Index half_;
  plan::SiluForm form_;
};

}  // namespace rowscale::cuda
