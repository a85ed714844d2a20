#include "cpu/source.hpp"

#include <algorithm>
#include <cstring>

#include "numerics/rms_norm.hpp"

namespace rowscale::cpu {

const void* PlainSource::span(const Row& row, int64_t column, int64_t count, void* scratch) const {
  return x_.read(row.index, column, count, scratch);
}

DequantizedSource::DequantizedSource(const Kernels& kernels, const TensorView& codes,
                                     const TensorView& scales, const Recipe& recipe)
    : kernels_(kernels),
      codes_(codes),
      grid_(recipe, codes_.rows_per_batch(), codes_.columns()),
      scales_(recipe, grid_, scales.data),
      format_(index_of(recipe.format)) {}

const void* DequantizedSource::span(const Row& row, int64_t column, int64_t count,
                                    void* scratch) const {
  uint8_t code_copy[plan::kStripElements];
  const std::byte* codes = codes_.read(row.index, column, count, code_copy);
  auto* y = static_cast<float*>(scratch);
  const auto decode = kernels_.decode[format_][index_of(DType::f32)];
  // Unit by unit of the input's scales, whose borders need not be those of the output's.
  for (int64_t done = 0; done < count;) {
    const plan::ScaleGrid::Position at = grid_.at(row.index, column + done);
    const int64_t end = std::min(count, (at.column + 1) * grid_.unit_columns - column);
    const float scale = scales_.load(at.batch, at.row, at.column);
    decode(reinterpret_cast<const uint8_t*>(codes) + done, end - done, end - done, &scale,
           y + done);
    done = end;
  }
  return scratch;
}

RmsNormSource::RmsNormSource(const Kernels& kernels, const TensorView& x, const RmsNorm& norm)
    : kernels_(kernels),
      x_(x),
      weight_(norm.weight),
      residual_(norm.residual),
      has_residual_(norm.residual.data != nullptr),
      eps_(norm.eps),
      form_(norm.form) {}

Row RmsNormSource::begin_row(int64_t row) const {
  // Strips of whole rounds over the lanes, so that each begins at lane 0.
  constexpr int64_t kRound = int64_t{numerics::kTreeChunk} * numerics::kTreeLanes;
  static_assert(plan::kStripElements % kRound == 0);
  const int type = index_of(x_.dtype());
  float lanes[numerics::kTreeLanes] = {};
  Strip x_copy;
  Strip residual_copy;
  for (int64_t column = 0; column < x_.columns(); column += plan::kStripElements) {
    const int64_t count = std::min(plan::kStripElements, x_.columns() - column);
    const void* z = x_.read(row, column, count, &x_copy);
    if (has_residual_) {
      const void* residual = residual_.read(row, column, count, &residual_copy);
      void* sum = residual_.write_target(row, column, count, &residual_copy);
      kernels_.add[type](z, residual, count, sum);
      residual_.commit(row, column, count, sum);
      z = sum;
    }
    kernels_.sum_squares[type](z, count, lanes);
  }
  const float sum = numerics::reduce_tree(lanes);
  return {row, numerics::rms_factor(sum, x_.columns(), eps_)};
}

const void* RmsNormSource::span(const Row& row, int64_t column, int64_t count,
                                void* scratch) const {
  Strip z_copy;
  Strip weight;
  const plan::RowView& z_rows = has_residual_ ? residual_ : x_;
  const void* z = z_rows.read(row.index, column, count, &z_copy);
  kernels_.widen[index_of(weight_.dtype())](weight_.read(0, column, count, nullptr), count,
                                            weight.values);
  kernels_.norm[index_of(x_.dtype())](z, count, row.factor, weight.values, form_, scratch);
  return scratch;
}

struct alignas(64) UnroundedNormSource::Piece {
  float values[kPiece];
};

UnroundedNormSource::UnroundedNormSource(const Kernels& kernels, const TensorView& x,
                                         const RmsNorm& norm)
    : kernels_(kernels),
      x_(x),
      weight_(norm.weight),
      residual_(norm.residual),
      eps_(norm.eps),
      form_(norm.form) {}

void UnroundedNormSource::add(int64_t row, int64_t column, int64_t count, float* z) const {
  const int type = index_of(x_.dtype());
  Piece copy;
  Piece residual;
  kernels_.widen[type](x_.read(row, column, count, &copy), count, z);
  kernels_.widen[type](residual_.read(row, column, count, &copy), count, residual.values);
  kernels_.add[index_of(DType::f32)](z, residual.values, count, z);
}

Row UnroundedNormSource::begin_row(int64_t row) const {
  float lanes[numerics::kTreeLanes] = {};
  for_pieces(0, x_.columns(), [&](int64_t column, int64_t count) {
    Piece z;
    add(row, column, count, z.values);
    kernels_.sum_squares[index_of(DType::f32)](z.values, count, lanes);
  });
  const float sum = numerics::reduce_tree(lanes);
  return {row, numerics::rms_factor(sum, x_.columns(), eps_)};
}

void UnroundedNormSource::end_row(const Row& row) const {
  for_pieces(0, x_.columns(), [&](int64_t column, int64_t count) {
    Piece x_copy;
    Piece residual_copy;
    const void* x = x_.read(row.index, column, count, &x_copy);
    const void* residual = residual_.read(row.index, column, count, &residual_copy);
    void* sum = residual_.write_target(row.index, column, count, &residual_copy);
    kernels_.add[index_of(x_.dtype())](x, residual, count, sum);
    residual_.commit(row.index, column, count, sum);
  });
}

const void* UnroundedNormSource::span(const Row& row, int64_t column, int64_t count,
                                      void* scratch) const {
  for_pieces(column, column + count, [&](int64_t begin, int64_t size) {
    Piece z;
    Piece weight;
    add(row.index, begin, size, z.values);
    kernels_.widen[index_of(weight_.dtype())](weight_.read(0, begin, size, nullptr), size,
                                              weight.values);
    auto* y = static_cast<std::byte*>(scratch) + (begin - column) * x_.element_bytes();
    kernels_.norm_of_floats[index_of(x_.dtype())](z.values, size, row.factor, weight.values, form_,
                                                  y);
  });
  return scratch;
}

GatedSource::GatedSource(const Kernels& kernels, const TensorView& x, Gate gate)
    : kernels_(kernels), x_(x), gate_(gate) {}

const void* GatedSource::span(const Row& row, int64_t column, int64_t count, void* scratch) const {
  Strip gate_copy;
  Strip up_copy;
  const void* gate = x_.read(row.index, column, count, &gate_copy);
  const void* up = x_.read(row.index, x_.columns() / 2 + column, count, &up_copy);
  kernels_.gated[index_of(x_.dtype())](gate, up, count, gate_, scratch);
  return scratch;
}

const void* UnroundedSiluSource::span(const Row& row, int64_t column, int64_t count,
                                      void* scratch) const {
  Strip gate_copy;
  Strip up_copy;
  const void* gate = x_.read(row.index, column, count, &gate_copy);
  const void* up = x_.read(row.index, x_.columns() / 2 + column, count, &up_copy);
  kernels_.silu_unrounded[index_of(x_.dtype())](gate, up, count, form_,
                                                static_cast<float*>(scratch));
  return scratch;
}

const void* Relu2Source::span(const Row& row, int64_t column, int64_t count, void* scratch) const {
  Strip x_copy;
  kernels_.relu2[index_of(x_.dtype())](x_.read(row.index, column, count, &x_copy), count, scratch);
  return scratch;
}

const void* SwigluSource::span(const Row& row, int64_t column, int64_t count, void* scratch) const {
  Strip x_copy[2];
  const void* pairs = x_.read(row.index, 2 * column, 2 * count, x_copy);
  kernels_.swiglu[index_of(x_.dtype())](pairs, count, params_.alpha, params_.limit, scratch);
  return scratch;
}

const void* StoredSource::span(const Row& row, int64_t column, int64_t count, void* scratch) const {
  // The source may write straight into the output where that is contiguous.
  void* target = row_out_.write_target(row.index, column, count, scratch);
  const void* values = source_.span(row, column, count, target);
  if (values != target) {
    std::memcpy(target, values, static_cast<size_t>(count * row_out_.element_bytes()));
  }
  row_out_.commit(row.index, column, count, target);
  return target;
}

}  // namespace rowscale::cpu
