// Products in fp64 from decoded operands, by the definition: what every backend is held to.
#pragma once

#include <cstdint>
#include <vector>

#include "rowscale/types.hpp"

namespace rowscale::test {

// The values behind a call, without strides, layouts and encodings. `experts` weights; A has
// batches of m rows: one, or one an expert where rows are masked.
struct MatmulValues {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t experts = 1;
  int64_t batches = 1;
  Format format_a = Format::e4m3;
  Format format_b = Format::e4m3;
  std::vector<uint8_t> a;  // [batches][m][k]
  std::vector<uint8_t> b;  // [experts][n][k]
  // How many elements along k, and for B along n, share a scale; more than there are: all.
  int64_t group = 1;
  int64_t rows_b = 1;
  std::vector<double> scale_a;  // [batches][m][groups], groups = ceil(k / group), at least 1
  std::vector<double> scale_b;  // [experts][ceil(n / rows_b)][groups]
  std::vector<double> bias;     // [n] or empty

  [[nodiscard]] int64_t groups() const { return k <= group ? 1 : (k + group - 1) / group; }
  [[nodiscard]] int64_t scale_rows_b() const { return n <= rows_b ? 1 : (n + rows_b - 1) / rows_b; }
};

struct MatmulReference {
  double value = 0.0;
  // Of the absolute products, scaled, and the absolute bias: what errors are relative to.
  double magnitude = 0.0;
};

MatmulReference matmul_reference(const MatmulValues& values, int64_t expert, int64_t batch,
                                 int64_t row, int64_t column);

// The value of a code by the definition of its format; NaN and infinity too.
double code_value(Format format, uint8_t code);

// `value` in dtype (f32, f16 or bf16), to nearest even, as a double; infinity where it overflows.
double rounded_to(DType dtype, double value);

}  // namespace rowscale::test
