// Small calls with literal values in and out, by every target of this machine at once.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "rowscale/rowscale.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {

struct Quantized {
  std::vector<uint8_t> codes;
  std::vector<float> scales;       // of the f32 encodings
  std::vector<uint8_t> bytes;      // of the others: storage as it is
  std::vector<float> dequantized;  // as f32
};

inline std::vector<uint8_t> to_u8(const std::vector<std::byte>& bytes) {
  std::vector<uint8_t> out(bytes.size());
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// Every target gives the same; that is what is returned.
inline Quantized quantized(const TensorView& x, const Recipe& recipe,
                           const std::vector<std::byte>& given = {}) {
  Outputs first;
  for (Target target : supported_targets()) {
    CallOptions options;
    options.exec.target = target;
    options.given = given;
    Outputs outputs = run_quantize(x, recipe, options);
    if (target == supported_targets().front()) {
      first = std::move(outputs);
    } else {
      EXPECT_TRUE(same_outputs(outputs, first)) << to_string(target) << ": " << to_string(recipe);
    }
  }
  Quantized q;
  q.codes = to_u8(first.codes);
  const bool is_float =
      recipe.encoding == ScaleEncoding::f32 || recipe.encoding == ScaleEncoding::ue8m0_f32;
  if (is_float) {
    q.scales = values_of(DType::f32, first.scales);
  } else {
    q.bytes = to_u8(first.scales);
  }
  const TensorView codes = view_of(q.codes.data(), code_dtype(recipe), row_shape(x, x.columns()));
  const TensorView scales = spec_of(codes, recipe).view(first.scales.data());
  q.dequantized = values_of(DType::f32, run_dequantize(codes, scales, recipe, DType::f32));
  return q;
}

inline Quantized quantized(DType dtype, const std::vector<float>& x,
                           const std::vector<int64_t>& shape, const Recipe& recipe,
                           const std::vector<float>& given = {}) {
  const auto bytes = data_of(dtype, x);
  return quantized(view_of(bytes.data(), dtype, shape), recipe, data_of(DType::f32, given));
}

// Codes of fp32 values under the given scale.
inline std::vector<uint8_t> codes_at(float scale, const std::vector<float>& x,
                                     Format format = Format::e4m3) {
  Recipe recipe = per_tensor();
  recipe.scale_source = ScaleSource::given;
  recipe.format = format;
  return quantized(DType::f32, x, {1, static_cast<int64_t>(x.size())}, recipe, {scale}).codes;
}

// Values of codes under a scale of 1.
inline std::vector<float> values_of_codes(const std::vector<uint8_t>& codes, Format format,
                                          DType dtype) {
  Recipe recipe = per_tensor();
  recipe.format = format;
  const float one = 1.0F;
  const auto n = static_cast<int64_t>(codes.size());
  const TensorView view = view_of(codes.data(), code_dtype(recipe), {1, n});
  std::vector<std::byte> first;
  for (Target target : supported_targets()) {
    const auto y = run_dequantize(view, TensorView::contiguous(&one, DType::f32, {1}), recipe,
                                  dtype, on(target));
    if (first.empty()) first = y;
    EXPECT_TRUE(same_bytes(y, first)) << to_string(target);
  }
  return values_of(dtype, first);
}

}  // namespace rowscale::test
