#include "tests/support/matmul_reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/support/code_table.hpp"

namespace rowscale::test {
namespace {

using Decoded = std::array<double, 256>;

Decoded make_decoded(Format format) {
  const CodeTable& table = format == Format::e4m3 ? e4m3_table() : e5m2_table();
  Decoded decoded;
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t magnitude = code & 0x7FU;
    double value = std::numeric_limits<double>::quiet_NaN();
    if (magnitude <= table.last_code()) {
      value = table.value(magnitude);
    } else if (format == Format::e5m2 && magnitude == 0x7C) {
      value = std::numeric_limits<double>::infinity();
    }
    decoded[code] = code < 0x80 ? value : -value;
  }
  return decoded;
}

const Decoded& decoded(Format format) {
  static const Decoded e4m3 = make_decoded(Format::e4m3);
  static const Decoded e5m2 = make_decoded(Format::e5m2);
  return format == Format::e4m3 ? e4m3 : e5m2;
}

}  // namespace

double code_value(Format format, uint8_t code) {
  return decoded(format)[code];
}

MatmulReference matmul_reference(const MatmulValues& v, int64_t expert, int64_t batch, int64_t row,
                                 int64_t column) {
  const Decoded& decoded_a = decoded(v.format_a);
  const Decoded& decoded_b = decoded(v.format_b);
  const uint8_t* a = v.a.data() + (batch * v.m + row) * v.k;
  const uint8_t* b = v.b.data() + (expert * v.n + column) * v.k;
  const double* scale_a = v.scale_a.data() + (batch * v.m + row) * v.groups();
  const double* scale_b =
      v.scale_b.data() +
      (expert * v.scale_rows_b() + (v.n <= v.rows_b ? 0 : column / v.rows_b)) * v.groups();
  MatmulReference sum;
  for (int64_t g = 0; g < v.groups(); ++g) {
    const int64_t begin = v.k <= v.group ? 0 : g * v.group;
    const int64_t end = v.k <= v.group ? v.k : std::min(v.k, begin + v.group);
    double part = 0.0;
    double magnitude = 0.0;
    for (int64_t i = begin; i < end; ++i) {
      const double product = decoded_a[a[i]] * decoded_b[b[i]];
      part += product;
      magnitude += std::abs(product);
    }
    if (end == begin) continue;  // nothing, whatever the scale
    sum.value += part * scale_a[g] * scale_b[g];
    sum.magnitude += magnitude * std::abs(scale_a[g] * scale_b[g]);
  }
  if (!v.bias.empty()) {
    const double bias = v.bias[static_cast<size_t>(column)];
    sum.value += bias;
    sum.magnitude += std::abs(bias);
  }
  return sum;
}

double rounded_to(DType dtype, double value) {
  if (std::isnan(value)) return value;
  if (dtype == DType::f32) return static_cast<float>(value);
  const CodeTable& table = dtype == DType::bf16 ? bf16_table() : fp16_table();
  const uint32_t code = table.nearest(std::abs(value));
  const double magnitude =
      code == table.last_code() ? std::numeric_limits<double>::infinity() : table.value(code);
  return std::signbit(value) ? -magnitude : magnitude;
}

}  // namespace rowscale::test
