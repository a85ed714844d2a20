// Quantizes the output of attention, which lies head by head, as the rows that the output
// projection reads: one row a token, the values of all heads side by side. No copy is made before.
#include <rowscale/rowscale.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

// [attention_output]
// x: [heads, tokens, dim]. codes: [tokens, heads * dim]; scales: one float a group of 128 of a row.
rowscale::Status quantize_heads(const std::vector<float>& x, int64_t heads, int64_t tokens,
                                int64_t dim, std::vector<uint8_t>* codes,
                                std::vector<float>* scales) {
  using rowscale::DType;
  using rowscale::TensorView;
  const rowscale::Recipe recipe = rowscale::per_group(128);

  // Dimension 1 gives the rows; 0, then 2, are the columns of a row.
  const auto rows =
      TensorView::contiguous(x.data(), DType::f32, {heads, tokens, dim}).as_rows({1}, {0, 2});
  codes->resize(x.size());
  const auto codes_view = TensorView::contiguous(codes->data(), DType::e4m3, {tokens, heads * dim});

  rowscale::ScaleSpec spec;
  const rowscale::Status status = rowscale::scale_spec(codes_view, recipe, &spec);
  if (!status.ok()) return status;
  scales->resize(static_cast<size_t>(spec.allocation));

  return rowscale::quantize(rows, recipe, codes_view, spec.view(scales->data()));
}
// [/attention_output]

int main() {
  const int64_t heads = 3;
  const int64_t tokens = 5;
  const int64_t dim = 96;  // a group of 128 reaches from one head into the next
  std::vector<float> x(static_cast<size_t>(heads * tokens * dim));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37F * static_cast<float>(i));

  std::vector<uint8_t> codes;
  std::vector<float> scales;
  const auto failed = [](const rowscale::Status& status) {
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", to_string(status.code()), status.message().c_str());
    }
    return !status.ok();
  };
  if (failed(quantize_heads(x, heads, tokens, dim, &codes, &scales))) return 1;

  // Back into the order of the heads: views of that kind serve as outputs too.
  const rowscale::Recipe recipe = rowscale::per_group(128);
  std::vector<float> y(x.size());
  const auto codes_view =
      rowscale::TensorView::contiguous(codes.data(), rowscale::DType::e4m3, {tokens, heads * dim});
  const auto y_view =
      rowscale::TensorView::contiguous(y.data(), rowscale::DType::f32, {heads, tokens, dim})
          .as_rows({1}, {0, 2});
  rowscale::ScaleSpec spec;
  if (failed(rowscale::scale_spec(codes_view, recipe, &spec))) return 1;
  if (failed(rowscale::dequantize(codes_view, spec.view(scales.data()), recipe, y_view))) return 1;

  float largest = 0.0F;
  for (size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::fabs(y[i] - x[i]));
  std::printf("%zu codes, %zu scales\n", codes.size(), scales.size());
  std::printf("largest error of a value: %g\n", largest);
  return largest < 0.036F ? 0 : 1;
}
