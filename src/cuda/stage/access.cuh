// How a thread reaches the 8 elements of a chunk.
#pragma once

#include "cuda/device/words.cuh"
#include "plan/divider.hpp"
#include "plan/gpu_plan.hpp"
#include "plan/memory.hpp"
#include "plan/row_view.hpp"

namespace rowscale::cuda {

// Rows at one stride whose chunks are whole and aligned to their size, or to 16 bytes.
class VectorRows {
 public:
  static constexpr plan::GpuAccess kAccess = plan::GpuAccess::vectors;
  using Index = int32_t;  // of rows, columns, units and scales

  VectorRows(const plan::RowView& view, plan::GpuLoads loads)
      : data_(view.address(0, 0)),
        row_stride_(static_cast<uint32_t>(view.row_stride())),
        loads_(loads) {}

  // Where a row begins; for kernels that go through a row's chunks by offsets they know.
  [[nodiscard]] __device__ __forceinline__ std::byte* begin(Index row) const {
    return data_ + uint64_t{static_cast<uint32_t>(row)} * row_stride_;
  }

  // Zeros where `count`, the elements that are left in the unit, is none.
  template <class T>
  __device__ __forceinline__ Words<plan::kChunk * sizeof(T)> load(Index row, Index column,
                                                                  Index count) const {
    return load_words<plan::kChunk * sizeof(T)>(address(row, column, sizeof(T)), count > 0, loads_);
  }
  template <class T>
  __device__ __forceinline__ void store(Index row, Index column, Index count,
                                        const Words<plan::kChunk * sizeof(T)>& words) const {
    if (count > 0) store_words(address(row, column, sizeof(T)), words);
  }

 private:
  __device__ __forceinline__ std::byte* address(Index row, Index column, Index bytes) const {
    const uint64_t offset = uint64_t{static_cast<uint32_t>(row)} * row_stride_;
    return data_ + offset + static_cast<uint32_t>(column) * static_cast<uint32_t>(bytes);
  }

  std::byte* data_;
  uint32_t row_stride_;  // bytes
  plan::GpuLoads loads_;
};

// Rows whose columns lie in runs at one stride, otherwise as VectorRows: the heads of attention.
class RunRows {
 public:
  static constexpr plan::GpuAccess kAccess = plan::GpuAccess::runs;
  using Index = int32_t;

  RunRows(const plan::RowView& view, plan::GpuLoads loads)
      : data_(view.address(0, 0)),
        row_stride_(static_cast<uint32_t>(view.row_stride())),
        run_stride_(static_cast<uint32_t>(view.run_stride())),
        run_(static_cast<Index>(view.run())),
        loads_(loads) {}

  template <class T>
  __device__ __forceinline__ Words<plan::kChunk * sizeof(T)> load(Index row, Index column,
                                                                  Index count) const {
    return load_words<plan::kChunk * sizeof(T)>(address(row, column, sizeof(T)), count > 0, loads_);
  }
  template <class T>
  __device__ __forceinline__ void store(Index row, Index column, Index count,
                                        const Words<plan::kChunk * sizeof(T)>& words) const {
    if (count > 0) store_words(address(row, column, sizeof(T)), words);
  }

 private:
  __device__ __forceinline__ std::byte* address(Index row, Index column, Index bytes) const {
    const Index run = run_.divide(column);
    const auto in_run = static_cast<uint32_t>(column - run * run_.divisor());
    return data_ + uint64_t{static_cast<uint32_t>(row)} * row_stride_ +
           uint64_t{static_cast<uint32_t>(run)} * run_stride_ +
           in_run * static_cast<uint32_t>(bytes);
  }

  std::byte* data_;
  uint32_t row_stride_;  // bytes
  uint32_t run_stride_;  // bytes
  plan::Divider<Index> run_;
  plan::GpuLoads loads_;
};

// Any view: element by element, one at a time, because eight at once would be eight times the code.
class ElementRows {
 public:
  static constexpr plan::GpuAccess kAccess = plan::GpuAccess::elements;
  using Index = int64_t;

  ElementRows(const plan::RowView& view, plan::GpuLoads /*loads*/) : view_(view) {}

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
