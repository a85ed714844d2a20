// Quantizes activations and a weight to FP8, multiplies them, and prints which backend did it and
// how far the result is from the product of the unquantized matrices.
#include <rowscale/rowscale.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

int fail(const rowscale::Status& status) {
  std::fprintf(stderr, "%s: %s\n", to_string(status.code()), status.message().c_str());
  return 1;
}

// Codes and one scale a row.
struct Quantized {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

rowscale::Status quantize_rows(const std::vector<float>& x, int64_t rows, int64_t columns,
                               const rowscale::Recipe& recipe, Quantized* out) {
  using rowscale::DType;
  using rowscale::TensorView;
  out->codes.resize(x.size());
  out->scales.resize(static_cast<size_t>(rows));
  return rowscale::quantize(TensorView::contiguous(x.data(), DType::f32, {rows, columns}), recipe,
                            TensorView::contiguous(out->codes.data(), DType::e4m3, {rows, columns}),
                            TensorView::contiguous(out->scales.data(), DType::f32, {rows, 1}));
}

}  // namespace

// [matmul]
// out: [tokens, n] of activations [tokens, k], one scale a token, and a weight [n, k], one scale a
// channel. *chosen: the backend that was taken, and why.
rowscale::Status linear(const std::vector<uint8_t>& x, const std::vector<float>& x_scales,
                        const std::vector<uint8_t>& weight, const std::vector<float>& weight_scales,
                        int64_t tokens, int64_t n, int64_t k, std::vector<float>* out,
                        std::string* chosen) {
  using rowscale::DType;
  using rowscale::TensorView;
  out->resize(static_cast<size_t>(tokens * n));

  rowscale::MatmulTensors tensors;
  tensors.a = TensorView::contiguous(x.data(), DType::e4m3, {tokens, k});
  tensors.b = TensorView::contiguous(weight.data(), DType::e4m3, {n, k});
  tensors.scale_a = TensorView::contiguous(x_scales.data(), DType::f32, {tokens, 1});
  tensors.scale_b = TensorView::contiguous(weight_scales.data(), DType::f32, {n, 1});
  tensors.out = TensorView::contiguous(out->data(), DType::f32, {tokens, n});

  rowscale::MatmulPlan plan;  // made once for a shape, run as often as you like
  rowscale::Status status = rowscale::MatmulPlan::make(tensors, {}, &plan);
  if (!status.ok()) return status;
  *chosen = to_string(plan);
  return plan.run(tensors);
}
// [/matmul]

int main() {
  const int64_t tokens = 3;
  const int64_t n = 64;
  const int64_t k = 512;
  std::vector<float> x(static_cast<size_t>(tokens * k));
  std::vector<float> weight(static_cast<size_t>(n * k));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.37F);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = std::cos(static_cast<float>(i) * 0.11F);

  Quantized a;
  Quantized b;
  rowscale::Status status = quantize_rows(x, tokens, k, rowscale::per_token(), &a);
  if (!status.ok()) return fail(status);
  status = quantize_rows(weight, n, k, rowscale::per_channel(), &b);
  if (!status.ok()) return fail(status);

  std::vector<float> out;
  std::string chosen;
  status = linear(a.codes, a.scales, b.codes, b.scales, tokens, n, k, &out, &chosen);
  if (!status.ok()) return fail(status);

  double largest = 0.0;
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      double magnitude = 0.0;
      for (int64_t l = 0; l < k; ++l) {
        const double product = double{x[static_cast<size_t>(i * k + l)]} *
                               double{weight[static_cast<size_t>(j * k + l)]};
        sum += product;
        magnitude += std::abs(product);
      }
      const double got = out[static_cast<size_t>(i * n + j)];
      largest = std::max(largest, std::abs(got - sum) / magnitude);
    }
  }
  std::printf("%s\n", chosen.c_str());
  std::printf("largest error of a value: %.4f of its absolute products\n", largest);
  // e4m3 keeps four bits of each factor.
  return largest < 1.0 / 16 ? 0 : 1;
}
