// Quantizes inside the operator before: RMSNorm with a residual, and silu_mul. Each reads its input
// once and writes codes and scales; the row in between is never stored. The result is held to the
// formulas in double precision.
#include <rowscale/rowscale.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

// [norm]
using rowscale::DType;
using rowscale::Status;
using rowscale::TensorView;

// Codes of rows, and their scales: one float a group of 128.
struct Quantized {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

// x, residual: [tokens, hidden]; weight: [hidden]. residual becomes x + residual, and what is
// quantized is the norm of that.
Status norm_quantize(const std::vector<float>& x, const std::vector<float>& weight,
                     std::vector<float>* residual, int64_t tokens, Quantized* out) {
  const auto hidden = static_cast<int64_t>(weight.size());
  const rowscale::Recipe recipe = rowscale::per_group(128);
  rowscale::RmsNorm norm;
  norm.weight = TensorView::contiguous(weight.data(), DType::f32, {hidden});
  norm.residual = TensorView::contiguous(residual->data(), DType::f32, {tokens, hidden});
  norm.eps = 1e-6F;

  out->codes.resize(x.size());
  const auto codes = TensorView::contiguous(out->codes.data(), DType::e4m3, {tokens, hidden});
  rowscale::ScaleSpec spec;  // of the codes
  if (Status status = rowscale::scale_spec(codes, recipe, &spec); !status.ok()) return status;
  out->scales.resize(static_cast<size_t>(spec.allocation));

  return rowscale::rms_norm_quantize(TensorView::contiguous(x.data(), DType::f32, {tokens, hidden}),
                                     norm, recipe, codes, spec.view(out->scales.data()));
}
// [/norm]

// [activation]
// x: [tokens, 2 * width], the gates of a row before its ups. codes: [tokens, width].
Status silu_mul_quantize(const std::vector<float>& x, int64_t tokens, Quantized* out) {
  const int64_t width = static_cast<int64_t>(x.size()) / tokens / 2;
  const rowscale::Recipe recipe = rowscale::per_group(128);

  out->codes.resize(x.size() / 2);
  const auto codes = TensorView::contiguous(out->codes.data(), DType::e4m3, {tokens, width});
  rowscale::ScaleSpec spec;  // of the codes, not of x
  if (Status status = rowscale::scale_spec(codes, recipe, &spec); !status.ok()) return status;
  out->scales.resize(static_cast<size_t>(spec.allocation));

  return rowscale::silu_mul_quantize(
      TensorView::contiguous(x.data(), DType::f32, {tokens, 2 * width}), recipe, codes,
      spec.view(out->scales.data()));
}
// [/activation]

Status dequantize(const Quantized& in, int64_t tokens, std::vector<float>* y) {
  const int64_t width = static_cast<int64_t>(in.codes.size()) / tokens;
  const rowscale::Recipe recipe = rowscale::per_group(128);
  const auto codes = TensorView::contiguous(in.codes.data(), DType::e4m3, {tokens, width});
  rowscale::ScaleSpec spec;
  if (Status status = rowscale::scale_spec(codes, recipe, &spec); !status.ok()) return status;
  y->resize(in.codes.size());
  return rowscale::dequantize(codes, spec.view(in.scales.data()), recipe,
                              TensorView::contiguous(y->data(), DType::f32, {tokens, width}));
}

std::vector<double> norm_in_double(const std::vector<float>& z, const std::vector<float>& weight) {
  std::vector<double> out;
  out.reserve(z.size());
  for (size_t row = 0; row < z.size(); row += weight.size()) {
    double sum = 0;
    for (size_t i = 0; i < weight.size(); ++i) sum += double{z[row + i]} * double{z[row + i]};
    const double factor = 1.0 / std::sqrt(sum / static_cast<double>(weight.size()) + 1e-6);
    for (size_t i = 0; i < weight.size(); ++i) {
      out.push_back(double{z[row + i]} * factor * double{weight[i]});
    }
  }
  return out;
}

std::vector<double> silu_mul_in_double(const std::vector<float>& x, size_t width) {
  std::vector<double> out;
  out.reserve(x.size() / 2);
  for (size_t row = 0; row < x.size(); row += 2 * width) {
    for (size_t i = 0; i < width; ++i) {
      const double gate = x[row + i];
      out.push_back(gate / (1.0 + std::exp(-gate)) * double{x[row + width + i]});
    }
  }
  return out;
}

double largest_error(const std::vector<float>& y, const std::vector<double>& expected) {
  double largest = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    largest = std::max(largest, std::fabs(double{y[i]} - expected[i]));
  }
  return largest;
}

// Values between -amplitude and amplitude.
std::vector<float> waves(size_t count, float amplitude, float step) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = amplitude * std::sin(step * static_cast<float>(i));
  return out;
}

bool failed(const Status& status) {
  if (status.ok()) return false;
  std::fprintf(stderr, "%s: %s\n", to_string(status.code()), status.message().c_str());
  return true;
}

}  // namespace

int main() {
  const int64_t tokens = 4;
  const size_t hidden = 320;  // two groups of 128 and one of 64
  const std::vector<float> x = waves(tokens * hidden, 1.0F, 0.37F);
  const std::vector<float> weight = waves(hidden, 1.5F, 0.11F);
  std::vector<float> residual = waves(tokens * hidden, 0.5F, 0.23F);
  std::vector<float> sum = x;
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += residual[i];

  Quantized normed;
  std::vector<float> y;
  if (failed(norm_quantize(x, weight, &residual, tokens, &normed))) return 1;
  if (failed(dequantize(normed, tokens, &y))) return 1;
  double largest = largest_error(y, norm_in_double(sum, weight));

  const size_t width = 256;
  const std::vector<float> gates_and_ups = waves(tokens * 2 * width, 2.0F, 0.29F);
  Quantized product;
  if (failed(silu_mul_quantize(gates_and_ups, tokens, &product))) return 1;
  if (failed(dequantize(product, tokens, &y))) return 1;
  largest = std::max(largest, largest_error(y, silu_mul_in_double(gates_and_ups, width)));

  std::printf("norm: %zu codes, %zu scales\n", normed.codes.size(), normed.scales.size());
  std::printf("silu_mul: %zu codes, %zu scales\n", product.codes.size(), product.scales.size());
  std::printf("largest error of a value: %g\n", largest);
  // The largest codes are 32 apart, and an amax, here below 4, becomes 448.
  return residual == sum && largest <= 16.0 / 448.0 * 4.0 ? 0 : 1;
}
