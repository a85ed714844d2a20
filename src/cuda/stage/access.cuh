// How a thread reaches the 8 elements of a chunk.
#pragma once

#include "cuda/device/words.cuh"
#include "plan/gpu_plan.hpp"
#include "plan/memory.hpp"
#include "plan/row_view.hpp"

namespace rowscale::cuda {

// Rows at one stride whose chunks are whole and aligned to their size, or to 16 bytes.
class VectorRows {
 public:
  static constexpr plan::GpuAccess kAccess = plan::GpuAccess::vectors;

  explicit VectorRows(const plan::RowView& view)
      : data_(view.address(0, 0)), row_stride_(view.row_stride()) {}

  // Zeros where `count`, the elements that are left in the unit, is none.
  template <class T>
  __device__ __forceinline__ Words<plan::kChunk * sizeof(T)> load(int64_t row, int64_t column,
                                                                  int64_t count) const {
    constexpr int kBytes = plan::kChunk * sizeof(T);
    if (count <= 0) return {};
    return load_words<kBytes>(data_ + row * row_stride_ + column * int64_t{sizeof(T)});
  }
  template <class T>
  __device__ __forceinline__ void store(int64_t row, int64_t column, int64_t count,
                                        const Words<plan::kChunk * sizeof(T)>& words) const {
    if (count <= 0) return;
    store_words(data_ + row * row_stride_ + column * int64_t{sizeof(T)}, words);
  }

 private:
  std::byte* data_;
  int64_t row_stride_;
};

// Any view: element by element, one at a time, because eight at once would be eight times the code.
class ElementRows {
 public:
  static constexpr plan::GpuAccess kAccess = plan::GpuAccess::elements;

  explicit ElementRows(const plan::RowView& view) : view_(view) {}

  template <class T>
  __device__ __forceinline__ Words<plan::kChunk * sizeof(T)> load(int64_t row, int64_t column,
                                                                  int64_t count) const {
    Words<plan::kChunk * sizeof(T)> words = {};
#pragma unroll 1
    for (int i = 0; i < plan::kChunk; ++i) {
      uint32_t bits = 0;
      if (i < count) bits = plan::load_as<BitsOf<T>>(address(row, column + i));
      push<8 * sizeof(T)>(words, bits);
    }
    return words;
  }
  template <class T>
  __device__ __forceinline__ void store(int64_t row, int64_t column, int64_t count,
                                        Words<plan::kChunk * sizeof(T)> words) const {
#pragma unroll 1
    for (int i = 0; i < plan::kChunk && i < count; ++i) {
      plan::store_as(address(row, column + i), static_cast<BitsOf<T>>(words.w[0]));
      push<8 * sizeof(T)>(words, 0);
    }
  }

 private:
  template <int kBytes>
  struct Bits;
  template <class T>
  using BitsOf = typename Bits<sizeof(T)>::Type;

  // Moves all elements down by one; `bits` becomes the last.
  template <int kBits, int kBytes>
  static __device__ __forceinline__ void push(Words<kBytes>& words, uint32_t bits) {
    constexpr int kCount = kBytes / 4;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const uint32_t next = i + 1 < kCount ? words.w[i + 1] : bits;
      if constexpr (kBits == 32) {
        words.w[i] = next;
      } else {
        words.w[i] = words.w[i] >> kBits | next << (32 - kBits);
      }
    }
  }
  __device__ __noinline__ std::byte* address(int64_t row, int64_t column) const {
    return view_.address(row, column);
  }

  plan::RowView view_;
};

template <>
struct ElementRows::Bits<1> {
  using Type = uint8_t;
};
template <>
struct ElementRows::Bits<2> {
  using Type = uint16_t;
};
template <>
struct ElementRows::Bits<4> {
  using Type = uint32_t;
};

}  // namespace rowscale::cuda
