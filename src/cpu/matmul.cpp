#include "cpu/matmul.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/fp_env.hpp"
#include "cpu/matmul_tile.hpp"
#include "cpu/parallel.hpp"
#include "cpu/target.hpp"
#include "numerics/float16.hpp"
#include "plan/memory.hpp"
#include "plan/scale_view.hpp"

namespace rowscale::cpu {
namespace {

using product::Grouping;
using product::Problem;
using product::Scaling;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The rows of one expert: of all of a where there are none.
struct ExpertRows {
  int64_t first = 0;  // in its batch
  int64_t count = 0;
};

// Walks experts in order, because an offset is clamped by the one before it.
class Experts {
 public:
  Experts(const Problem& problem, const MatmulTensors& tensors)
      : problem_(problem), tensors_(tensors) {
    if (problem.grouping == Grouping::sorted && problem.experts > 0) end_ = offset(0);
  }

  ExpertRows next() {
    const int64_t expert = expert_++;
    if (problem_.grouping == Grouping::none) return {0, problem_.m};
    if (problem_.grouping == Grouping::masked) {
      const int64_t count = tensors_.a.row_counts[expert];
      return {0, std::clamp<int64_t>(count, 0, problem_.m)};
    }
    const int64_t first = end_;
    end_ = std::max(first, offset(expert + 1));
    return {first, end_ - first};
  }

 private:
  [[nodiscard]] int64_t offset(int64_t i) const {
    const auto* offsets = static_cast<const int32_t*>(tensors_.expert_offsets.data);
    return std::clamp<int64_t>(offsets[i], 0, problem_.m);
  }

  const Problem& problem_;
  const MatmulTensors& tensors_;
  int64_t expert_ = 0;
  int64_t end_ = 0;
};

// A scale's place, and its value in fp32.
class Scales {
 public:
  Scales(const Recipe& recipe, const TensorView& codes, const TensorView& scales)
      : grid_(recipe, codes.shape[codes.rank - 2], codes.columns()),
        view_(recipe, grid_, scales.data),
        is_one_row_(recipe.granularity == Granularity::per_tensor) {}

  [[nodiscard]] float at(int64_t batch, int64_t row, int64_t block) const {
    return view_.load(batch, is_one_row_ ? 0 : row / grid_.unit_rows, block);
  }

 private:
  plan::ScaleGrid grid_;
  plan::ScaleView view_;
  bool is_one_row_;
};

float load_float(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f16:
      return numerics::to_f32(plan::load_as<numerics::Fp16>(at));
    case DType::bf16:
      return numerics::to_f32(plan::load_as<numerics::Bf16>(at));
    default:
      return plan::load_as<float>(at);
  }
}

void store_float(DType dtype, float value, std::byte* at) {
  switch (dtype) {
    case DType::f16:
      return plan::store_as(at, numerics::round_to<numerics::Fp16>(value));
    case DType::bf16:
      return plan::store_as(at, numerics::round_to<numerics::Bf16>(value));
    default:
      return plan::store_as(at, numerics::round_to<float>(value));
  }
}

Format format_of(DType dtype) {
  return dtype == DType::e4m3 ? Format::e4m3 : Format::e5m2;
}

// A tile of out: `row` counts in the expert's batch of a.
struct Tile {
  int64_t expert, row, rows, column, columns;
};

class Matmul {
 public:
  Matmul(const Problem& problem, const MatmulTensors& tensors, const Kernels& kernels)
      : problem_(problem),
        tensors_(tensors),
        kernels_(kernels),
        scales_a_(problem.recipe_a, tensors.a, tensors.scale_a),
        scales_b_(problem.recipe_b, tensors.b, tensors.scale_b),
        tiles_across_(ceil_div(problem.n, kTileColumns)) {}

  [[nodiscard]] int64_t tiles() const {
    Experts experts(problem_, tensors_);
    int64_t tiles = 0;
    for (int64_t e = 0; e < problem_.experts; ++e) tiles += tiles_of(experts.next());
    return tiles;
  }

  // Of an expert those that share weights come one after the other.
  void run(int64_t begin, int64_t end) const {
    Experts experts(problem_, tensors_);
    int64_t first = 0;  // tile of the expert
    for (int64_t e = 0; e < problem_.experts && first < end; ++e) {
      const ExpertRows rows = experts.next();
      const int64_t down = ceil_div(rows.count, kTileRows);
      const int64_t last = first + tiles_of(rows);
      for (int64_t i = std::max(begin, first); i < std::min(end, last); ++i) {
        const int64_t row = (i - first) % down * kTileRows;
        const int64_t column = (i - first) / down * kTileColumns;
        run_tile({e, rows.first + row, std::min(kTileRows, rows.count - row), column,
                  std::min(kTileColumns, problem_.n - column)});
      }
      first = last;
    }
  }

 private:
  [[nodiscard]] int64_t tiles_of(const ExpertRows& rows) const {
    return ceil_div(rows.count, kTileRows) * tiles_across_;
  }
  // Batch of a and out, of their scales, too.
  [[nodiscard]] int64_t batch_of(const Tile& tile) const {
    return problem_.grouping == Grouping::masked ? tile.expert : 0;
  }

  void run_tile(const Tile& tile) const {
    TileSums sums;
    std::memset(&sums, 0, static_cast<size_t>(tile.rows) * kTileColumns * sizeof(float));
    for (int64_t k = 0; k < problem_.k; k += kTileDepth) add_step(tile, k, &sums);
    finish(tile, sums);
  }

  void add_step(const Tile& tile, int64_t k, TileSums* sums) const {
    TileOperands operands;
    const int64_t depth = std::min(kTileDepth, problem_.k - k);
    const auto* a = static_cast<const uint8_t*>(tensors_.a.data) +
                    batch_of(tile) * problem_.a.batch_stride + tile.row * problem_.a.row_stride + k;
    const auto* b = static_cast<const uint8_t*>(tensors_.b.data) +
                    tile.expert * problem_.b.batch_stride + tile.column * problem_.b.row_stride + k;
    const DecodeFunction decode =
        kernels_.decode[index_of(format_of(problem_.a.dtype))][index_of(DType::f32)];
    constexpr float kOne = 1.0F;
    for (int64_t i = 0; i < tile.rows; ++i) {
      decode(a + i * problem_.a.row_stride, depth, depth, &kOne, operands.a + i * kTileDepth);
    }
    kernels_.decode_columns[index_of(format_of(problem_.b.dtype))](b, problem_.b.row_stride,
                                                                   tile.columns, depth, operands.b);
    if (problem_.scaling == Scaling::vector) {
      kernels_.add_products(operands, tile.rows, tile.columns, depth, nullptr, sums);
      return;
    }
    float rows[kTileRows];
    float columns[kTileColumns] = {};
    load_scales(tile, k / kTileDepth, rows, columns);
    const TileScales scales{rows, columns};
    kernels_.add_products(operands, tile.rows, tile.columns, depth, &scales, sums);
  }

  void load_scales(const Tile& tile, int64_t block, float* rows, float* columns) const {
    for (int64_t i = 0; i < tile.rows; ++i) {
      rows[i] = scales_a_.at(batch_of(tile), tile.row + i, block);
    }
    for (int64_t j = 0; j < tile.columns; ++j) {
      columns[j] = scales_b_.at(tile.expert, tile.column + j, block);
    }
  }

  void finish(const Tile& tile, const TileSums& sums) const {
    const int64_t size = element_size(problem_.out.dtype);
    const bool is_scaled = problem_.scaling == Scaling::vector && problem_.k > 0;
    float rows[kTileRows];
    float columns[kTileColumns];
    float bias[kTileColumns];
    if (is_scaled) load_scales(tile, 0, rows, columns);
    if (problem_.has_bias) {
      const auto* at = static_cast<const std::byte*>(tensors_.bias.data);
      const int64_t bias_size = element_size(problem_.bias);
      for (int64_t j = 0; j < tile.columns; ++j) {
        bias[j] = load_float(problem_.bias, at + (tile.column + j) * bias_size);
      }
    }
    for (int64_t i = 0; i < tile.rows; ++i) {
      std::byte* out = static_cast<std::byte*>(tensors_.out.data) +
                       (batch_of(tile) * problem_.out.batch_stride +
                        (tile.row + i) * problem_.out.row_stride + tile.column) *
                           size;
      for (int64_t j = 0; j < tile.columns; ++j) {
        float value = sums.at[i * kTileColumns + j];
        if (is_scaled) value = numerics::mul(numerics::mul(value, rows[i]), columns[j]);
        if (problem_.has_bias) value = numerics::add(value, bias[j]);
        store_float(problem_.out.dtype, value, out + j * size);
      }
    }
  }

  const Problem& problem_;
  const MatmulTensors& tensors_;
  const Kernels& kernels_;
  Scales scales_a_;
  Scales scales_b_;
  int64_t tiles_across_;
};

}  // namespace

void matmul(const Problem& problem, const MatmulTensors& tensors, const Exec& exec) {
  const ScopedFpEnv env;
  const Matmul product(problem, tensors, kernels(resolve_target(exec.target)));
  const int threads = exec.threads == 0 ? available_threads() : exec.threads;
  parallel_ranges(
      product.tiles(), threads,
      [](void* self, int64_t begin, int64_t end) {
        static_cast<const Matmul*>(self)->run(begin, end);
      },
      const_cast<Matmul*>(&product));
}

}  // namespace rowscale::cpu
