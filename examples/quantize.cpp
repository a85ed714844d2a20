// Quantizes a matrix of activations to FP8 with one scale for each 128 elements of a row, reads it
// back, and prints the largest error.
#include <rowscale/rowscale.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

// [quantize]
// x: [tokens, hidden], contiguous. codes: one byte an element. scales: one float a group.
rowscale::Status quantize(const std::vector<float>& x, int64_t tokens, int64_t hidden,
                          std::vector<uint8_t>* codes, std::vector<float>* scales) {
  using rowscale::DType;
  using rowscale::TensorView;
  const rowscale::Recipe recipe = rowscale::per_group(128);

  codes->resize(x.size());
  const auto x_view = TensorView::contiguous(x.data(), DType::f32, {tokens, hidden});
  const auto codes_view = TensorView::contiguous(codes->data(), DType::e4m3, {tokens, hidden});

  rowscale::ScaleSpec spec;  // what the recipe needs for this shape
  const rowscale::Status status = rowscale::scale_spec(codes_view, recipe, &spec);
  if (!status.ok()) return status;
  scales->resize(static_cast<size_t>(spec.allocation));

  return rowscale::quantize(x_view, recipe, codes_view, spec.view(scales->data()));
}
// [/quantize]

// [dequantize]
rowscale::Status dequantize(const std::vector<uint8_t>& codes, const std::vector<float>& scales,
                            int64_t tokens, int64_t hidden, std::vector<float>* y) {
  using rowscale::DType;
  using rowscale::TensorView;
  const rowscale::Recipe recipe = rowscale::per_group(128);

  y->resize(codes.size());
  const auto codes_view = TensorView::contiguous(codes.data(), DType::e4m3, {tokens, hidden});
  const auto y_view = TensorView::contiguous(y->data(), DType::f32, {tokens, hidden});

  rowscale::ScaleSpec spec;
  const rowscale::Status status = rowscale::scale_spec(codes_view, recipe, &spec);
  if (!status.ok()) return status;
  return rowscale::dequantize(codes_view, spec.view(scales.data()), recipe, y_view);
}
// [/dequantize]

namespace {

int fail(const rowscale::Status& status) {
  std::fprintf(stderr, "%s: %s\n", to_string(status.code()), status.message().c_str());
  return 1;
}

}  // namespace

int main() {
  const int64_t tokens = 4;
  const int64_t hidden = 300;  // the last group of a row is short
  std::vector<float> x(static_cast<size_t>(tokens * hidden));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37F * static_cast<float>(i));

  std::vector<uint8_t> codes;
  std::vector<float> scales;
  if (const auto status = quantize(x, tokens, hidden, &codes, &scales); !status.ok()) {
    return fail(status);
  }
  std::vector<float> y;
  if (const auto status = dequantize(codes, scales, tokens, hidden, &y); !status.ok()) {
    return fail(status);
  }

  float largest = 0.0F;
  for (size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::fabs(y[i] - x[i]));
  std::printf("%s\n", rowscale::version());
  std::printf("%zu codes, %zu scales\n", codes.size(), scales.size());
  std::printf("largest error of a value: %g\n", largest);
  // At most half a step of e4m3 near its largest value, 448: 16 / 448 of the largest |x|, which
  // is 1.
  return largest < 0.036F ? 0 : 1;
}
