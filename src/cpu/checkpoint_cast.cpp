#include "cpu/checkpoint_cast.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "cpu/fp_env.hpp"
#include "cpu/kernels.hpp"
#include "cpu/parallel.hpp"
#include "cpu/target.hpp"
#include "numerics/checkpoint_cast.hpp"

namespace rowscale::cpu {
namespace {

int threads_of(const Exec& exec) {
  return exec.threads == 0 ? available_threads() : exec.threads;
}

template <class T>
class Cast {
 public:
  Cast(const TensorView& x, const TensorView& codes, const TensorView& scales, const Exec& exec)
      : x_(static_cast<const std::byte*>(x.data)),
        codes_(static_cast<uint8_t*>(codes.data)),
        scales_(static_cast<std::byte*>(scales.data)),
        rows_(x.shape[0]),
        columns_(x.shape[1]),
        threads_(threads_of(exec)),
        kernels_(kernels(resolve_target(exec.target))),
        type_(index_of(x.dtype)) {}

  void channels() const {
    parallel_for(rows_, threads_, [&](int64_t row) {
      float amax = 0.0F;
      kernels_.absmax[type_](row_of(row), columns_, columns_, &amax);
      const float scale = numerics::checkpoint_scale<T>(amax);
      store(row, scale);
      kernels_.checkpoint_codes[type_](row_of(row), columns_, columns_, &scale, codes_of(row));
    });
  }

  void blocks(int64_t block_rows, int64_t block_columns) const {
    const int64_t across = (columns_ + block_columns - 1) / block_columns;
    const int64_t down = (rows_ + block_rows - 1) / block_rows;
    const int64_t pieces = (across + kPiece - 1) / kPiece;
    parallel_for(down * pieces, threads_, [&](int64_t item) {
      const int64_t first_row = item / pieces * block_rows;
      const int64_t last_row = std::min(first_row + block_rows, rows_);
      const int64_t first = item % pieces * kPiece;  // of the blocks across
      const int64_t count = std::min(kPiece, across - first);
      const int64_t column = first * block_columns;
      const int64_t width = std::min(count * block_columns, columns_ - column);
      std::array<float, kPiece> scales{};
      for (int64_t row = first_row; row < last_row; ++row) {
        kernels_.absmax[type_](row_of(row, column), width, block_columns, scales.data());
      }
      for (int64_t i = 0; i < count; ++i) {
        float& scale = scales[static_cast<size_t>(i)];
        scale = numerics::checkpoint_scale<T>(scale);
        store(item / pieces * across + first + i, scale);
      }
      for (int64_t row = first_row; row < last_row; ++row) {
        kernels_.checkpoint_codes[type_](row_of(row, column), width, block_columns, scales.data(),
                                         codes_of(row) + column);
      }
    });
  }

  void given() const {
    T stored;
    std::memcpy(&stored, scales_, sizeof stored);
    const float scale = numerics::to_f32(stored);
    parallel_for(rows_, threads_, [&](int64_t row) {
      kernels_.checkpoint_codes[type_](row_of(row), columns_, columns_, &scale, codes_of(row));
    });
  }

 private:
  // Blocks across that are worked on at once: 128 rows of them stay in the second-level cache.
  static constexpr int64_t kPiece = 16;

  const std::byte* row_of(int64_t row, int64_t column = 0) const {
    return x_ + (row * columns_ + column) * int64_t{sizeof(T)};
  }
  uint8_t* codes_of(int64_t row) const { return codes_ + row * columns_; }
  void store(int64_t i, float scale) const {
    const T stored = numerics::round_to<T>(scale);
    std::memcpy(scales_ + i * int64_t{sizeof(T)}, &stored, sizeof stored);
  }

  const std::byte* x_;
  uint8_t* codes_;
  std::byte* scales_;
  int64_t rows_;
  int64_t columns_;
  int threads_;
  const Kernels& kernels_;
  int type_;
};

template <class T>
void run(const TensorView& x, const Recipe& recipe, const TensorView& codes,
         const TensorView& scales, const Exec& exec) {
  const Cast<T> cast(x, codes, scales, exec);
  if (recipe.scale_source == ScaleSource::given) {
    cast.given();
  } else if (recipe.granularity == Granularity::per_block) {
    cast.blocks(recipe.block_rows, recipe.block_columns);
  } else {
    cast.channels();
  }
}

}  // namespace

void checkpoint_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                         const TensorView& scales, const Exec& exec) {
  switch (x.dtype) {
    case DType::bf16:
      return run<numerics::Bf16>(x, recipe, codes, scales, exec);
    case DType::f16:
      return run<numerics::Fp16>(x, recipe, codes, scales, exec);
    default:
      return run<float>(x, recipe, codes, scales, exec);
  }
}

float checkpoint_absmax(const TensorView& x, const Exec& exec) {
  const ScopedFpEnv env;
  float amax = 0.0F;
  const int64_t elements = x.shape[0] * x.shape[1];
  if (elements == 0) return amax;
  kernels(resolve_target(exec.target)).absmax[index_of(x.dtype)](x.data, elements, elements, &amax);
  return amax;
}

}  // namespace rowscale::cpu
