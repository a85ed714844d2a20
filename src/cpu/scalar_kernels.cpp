// The executable specification: src/numerics, one element after the other.
#include <algorithm>
#include <cstring>

#include "cpu/kernels.hpp"
#include "numerics/activation.hpp"
#include "numerics/checkpoint_cast.hpp"
#include "numerics/float16.hpp"
#include "numerics/fp8.hpp"
#include "numerics/quotient.hpp"
#include "numerics/rms_norm.hpp"

namespace rowscale::cpu {
namespace {

using numerics::Bf16;
using numerics::E4m3;
using numerics::E5m2;
using numerics::Fp16;

// memcpy, because tensors may have any alignment.
template <class T>
float load(const void* data, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + i * int64_t{sizeof(T)}, sizeof(T));
  return numerics::to_f32(value);
}

template <class T>
void store(void* data, int64_t i, float x) {
  const T value = numerics::round_to<T>(x);
  std::memcpy(static_cast<std::byte*>(data) + i * int64_t{sizeof(T)}, &value, sizeof(T));
}

template <class T>
void absmax(const void* x, int64_t n, int64_t group, float* amax) {
  for (int64_t i = 0; i < n; ++i) {
    float& a = amax[i / group];
    a = numerics::raise_amax(a, load<T>(x, i));
  }
}

void make_divisors(Quotient quotient, int64_t count, Divisors* divisors) {
  for (int64_t i = 0; i < count; ++i) {
    // The law itself, no shortcut: the other members are not used.
    divisors->division[i] =
        quotient == Quotient::reciprocal ? Division::reciprocal : Division::exact;
  }
}

void make_scales(const numerics::ScaleRule& rule, Quotient quotient, const float* amax,
                 int64_t count, Divisors* divisors) {
  for (int64_t i = 0; i < count; ++i) divisors->s[i] = numerics::make_scale(rule, amax[i]);
  make_divisors(quotient, count, divisors);
}

template <class F, class T>
void encode(const void* x, int64_t n, int64_t group, const Divisors& divisors, NanRule nan,
            int64_t /*ahead*/, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t g = i / group;
    const Quotient quotient =
        divisors.division[g] == Division::reciprocal ? Quotient::reciprocal : Quotient::divide;
    codes[i] = numerics::encode<F>(numerics::quotient(load<T>(x, i), divisors.s[g], quotient), nan);
  }
}

template <class T>
void checkpoint_codes(const void* x, int64_t n, int64_t group, const float* scales,
                      uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    codes[i] = numerics::checkpoint_code<T>(load<T>(x, i), scales[i / group]);
  }
}

template <class F, class T>
void encode_columns(const void* x, int64_t n, const float* scales, Quotient quotient, NanRule nan,
                    uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    codes[i] = numerics::encode<F>(numerics::quotient(load<T>(x, i), scales[i], quotient), nan);
  }
}

template <class F, class T>
void decode(const uint8_t* codes, int64_t n, int64_t group, const float* scales, void* y) {
  for (int64_t i = 0; i < n; ++i) {
    store<T>(y, i, numerics::mul(numerics::decode<F>(codes[i]), scales[i / group]));
  }
}

template <class T>
void widen(const void* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = load<T>(x, i);
}

template <class T>
void add(const void* x, const void* residual, int64_t n, void* z) {
  for (int64_t i = 0; i < n; ++i) {
    store<T>(z, i, numerics::add(load<T>(x, i), load<T>(residual, i)));
  }
}

template <class T>
void sum_squares(const void* z, int64_t n, float* lanes) {
  for (int64_t begin = 0; begin < n; begin += numerics::kTreeChunk) {
    float chunk = 0.0F;
    const int64_t end = std::min<int64_t>(begin + numerics::kTreeChunk, n);
    for (int64_t i = begin; i < end; ++i) chunk = numerics::add_square(chunk, load<T>(z, i));
    float& lane = lanes[begin / numerics::kTreeChunk % numerics::kTreeLanes];
    lane = numerics::add(lane, chunk);
  }
}

template <class Z, class T>
void norm(const void* z, int64_t n, float factor, const float* weight, NormForm form, void* y) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = load<Z>(z, i);
    store<T>(y, i,
             form == NormForm::gemma ? numerics::normed_gemma(value, factor, weight[i])
                                     : numerics::normed<T>(value, factor, weight[i]));
  }
}

template <class T>
void gated(const void* gate, const void* up, int64_t n, Gate gate_function, void* y) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = load<T>(gate, i);
    const float u = load<T>(up, i);
    store<T>(y, i,
             gate_function == Gate::silu ? numerics::silu_mul<T>(g, u)
                                         : numerics::gelu_tanh_mul<T>(g, u));
  }
}

template <class T>
void silu_unrounded(const void* gate, const void* up, int64_t n, plan::SiluForm form, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = load<T>(gate, i);
    const float silu =
        form == plan::SiluForm::product ? numerics::silu_product(g) : numerics::silu_quotient(g);
    store<float>(y, i, numerics::mul(silu, load<T>(up, i)));
  }
}

template <class T>
void relu2(const void* x, int64_t n, void* y) {
  for (int64_t i = 0; i < n; ++i) store<T>(y, i, numerics::relu2(load<T>(x, i)));
}

template <class T>
void swiglu(const void* x, int64_t n, float alpha, float limit, void* y) {
  for (int64_t i = 0; i < n; ++i) {
    const float gate = load<T>(x, 2 * i);
    const float up = load<T>(x, 2 * i + 1);
    store<T>(y, i, numerics::swiglu_clamped(gate, up, alpha, limit));
  }
}

template <class F>
void decode_columns(const uint8_t* codes, int64_t stride, int64_t columns, int64_t depth,
                    float* to) {
  const int64_t padded = (columns + 31) / 32 * 32;
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t column = 0; column < padded; ++column) {
      to[k * kTileColumns + column] =
          column < columns ? numerics::decode<F>(codes[column * stride + k]) : 0.0F;
    }
  }
}

void add_products(const TileOperands& operands, int64_t rows, int64_t columns, int64_t depth,
                  const TileScales* scales, TileSums* sums) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float part = 0.0F;
      for (int64_t k = 0; k < depth; ++k) {
        part =
            numerics::fma(operands.a[i * kTileDepth + k], operands.b[k * kTileColumns + j], part);
      }
      if (scales != nullptr) {
        part = numerics::mul(numerics::mul(part, scales->rows[i]), scales->columns[j]);
      }
      float& sum = sums->at[i * kTileColumns + j];
      sum = numerics::add(sum, part);
    }
  }
}

template <class T>
void fill(Kernels* k, int t) {
  k->absmax[t] = absmax<T>;
  k->encode[0][t] = encode<E4m3, T>;
  k->encode[1][t] = encode<E5m2, T>;
  k->decode[0][t] = decode<E4m3, T>;
  k->decode[1][t] = decode<E5m2, T>;
  k->encode_columns[0][t] = encode_columns<E4m3, T>;
  k->encode_columns[1][t] = encode_columns<E5m2, T>;
  k->checkpoint_codes[t] = checkpoint_codes<T>;
  k->widen[t] = widen<T>;
  k->add[t] = add<T>;
  k->sum_squares[t] = sum_squares<T>;
  k->norm[t] = norm<T, T>;
  k->norm_of_floats[t] = norm<float, T>;
  k->gated[t] = gated<T>;
  k->silu_unrounded[t] = silu_unrounded<T>;
  k->relu2[t] = relu2<T>;
  k->swiglu[t] = swiglu<T>;
}

}  // namespace

const Kernels& scalar_kernels() {
  static const Kernels table = [] {
    Kernels k{};
    k.target = Target::scalar;
    k.make_scales = make_scales;
    k.make_divisors = make_divisors;
    k.decode_columns[0] = decode_columns<E4m3>;
    k.decode_columns[1] = decode_columns<E5m2>;
    k.add_products = add_products;
    fill<float>(&k, index_of(DType::f32));
    fill<Fp16>(&k, index_of(DType::f16));
    fill<Bf16>(&k, index_of(DType::bf16));
    return k;
  }();
  return table;
}

}  // namespace rowscale::cpu
