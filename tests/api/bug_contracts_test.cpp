// Public bug reports about strides, layouts and what an operator must refuse: docs/bug-cases.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/recipes.hpp"
#include "tests/support/small_call.hpp"

namespace rowscale::test {
namespace {

using Shape = std::vector<int64_t>;

// Strided inputs: equal to a contiguous copy where columns are contiguous, refused elsewhere.
TEST(BugB37, StridesOfTheInput) {
  std::vector<float> x(6 * 256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  std::vector<uint8_t> codes(x.size(), 0xA5);
  std::vector<float> scales(256, -1.0F);
  const auto refused = [&](const TensorView& view, const Shape& shape) {
    const Status status = quantize(view, per_token(), view_of(codes.data(), DType::e4m3, shape),
                                   view_of(scales.data(), DType::f32, {shape[0], 1}));
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(status.message().find("x: expected a stride of 1"), std::string::npos);
    EXPECT_EQ(codes, std::vector<uint8_t>(x.size(), 0xA5));
  };
  refused(TensorView::strided(x.data(), DType::f32, {6, 256}, {1, 6}), {6, 256});    // transposed
  refused(TensorView::strided(x.data(), DType::f32, {6, 128}, {256, 2}), {6, 128});  // x[:, ::2]
  // x[::2], expand and a slice in the middle.
  struct Case {
    Shape shape, strides;
    int64_t offset;
  };
  for (const Case& c : {Case{{3, 256}, {512, 1}, 0}, Case{{4, 256}, {0, 1}, 256},
                        Case{{5, 100}, {256, 1}, 57}, Case{{6, 256}, {-256, 1}, 5 * 256}}) {
    const TensorView view = TensorView::strided(x.data() + c.offset, DType::f32,
                                                {c.shape[0], c.shape[1]}, {c.strides[0], 1});
    std::vector<float> copy;
    for (int64_t r = 0; r < c.shape[0]; ++r) {
      const float* row = x.data() + c.offset + r * c.strides[0];
      copy.insert(copy.end(), row, row + c.shape[1]);
    }
    const Quantized got = quantized(view, per_token());
    const Quantized want = quantized(DType::f32, copy, c.shape, per_token());
    EXPECT_EQ(got.codes, want.codes);
    EXPECT_EQ(got.scales, want.scales);
  }
}

// A slice of a buffer full of 1e4: the scale comes from the slice alone.
TEST(BugB38, SliceOfALargerBuffer) {
  std::vector<float> buffer(8 * 576, 1e4F);
  for (int64_t r = 0; r < 8; ++r) {
    for (int64_t c = 0; c < 512; ++c) {
      buffer[static_cast<size_t>(r * 576 + c)] = c == 300 ? -1.0F : 0.5F;
    }
  }
  const auto bytes = data_of(DType::bf16, buffer);
  const TensorView x = TensorView::strided(bytes.data(), DType::bf16, {8, 512}, {576, 1});
  for (const Recipe& recipe : {per_tensor(), per_token(), per_group(512), per_block(8, 512)}) {
    for (float scale : quantized(x, recipe).scales) EXPECT_EQ(scale, 1.0F / 448.0F);
  }
  // [2, 8, 256] and of it [:, 3:, :]: rows 0 to 2 of each batch hold 1e4.
  std::vector<float> batches(2 * 8 * 256, 1.0F);
  for (int64_t b = 0; b < 2; ++b) std::fill_n(batches.begin() + b * 2048, 3 * 256, 1e4F);
  const TensorView slice =
      TensorView::strided(batches.data() + 3 * 256, DType::f32, {2, 5, 256}, {8 * 256, 256, 1});
  for (const Recipe& recipe : {per_tensor(), per_token(), per_group(128), per_block(5, 128)}) {
    const Quantized q = quantized(slice, recipe);
    for (float scale : q.scales) EXPECT_EQ(scale, 1.0F / 448.0F) << to_string(recipe);
    EXPECT_EQ(q.codes, std::vector<uint8_t>(2 * 5 * 256, 0x7E));
  }
}

// Each pointer and each row misaligned in its own way.
TEST(BugB39, MisalignedRowsAndPointers) {
  const auto data = make_data(Data::normal, DType::bf16, 5 * 46, 39);
  const Quantized want = quantized(view_of(data.data(), DType::bf16, {5, 46}), per_group(16));
  std::vector<std::byte> x(data.size() + 2);
  std::copy(data.begin(), data.end(), x.begin() + 2);
  GuardedBuffer codes(5 * 46, 1);
  GuardedBuffer scales(5 * 3 * 4, 4);
  ASSERT_TRUE(quantize(view_of(x.data() + 2, DType::bf16, {5, 46}), per_group(16),
                       view_of(codes.data(), DType::e4m3, {5, 46}),
                       view_of(scales.data(), DType::f32, {5, 3}))
                  .ok());
  EXPECT_EQ(to_u8(codes.content()), want.codes);
  EXPECT_EQ(values_of(DType::f32, scales.content()), want.scales);
  EXPECT_TRUE(codes.guards_are_unchanged());
  EXPECT_TRUE(scales.guards_are_unchanged());
}

// Distinct powers of two through the packed layout of 5 groups: 2 words, 3 pad bytes.
TEST(BugB40, PackedPitch) {
  std::vector<float> x(3 * 640, 0.0F);
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t g = 0; g < 5; ++g) {
      x[static_cast<size_t>(t * 640 + g * 128 + 127)] =
          std::ldexp(448.0F, static_cast<int>(5 * t + g) - 7);
    }
  }
  const Recipe packed = with(per_group(128), ScaleEncoding::ue8m0_packed);
  const Quantized q = quantized(DType::f32, x, {3, 640}, packed);
  // Words in columns of four rows: word 0 of rows 0, 1, 2, a pad row, word 1 of rows 0, 1, 2.
  EXPECT_EQ(q.bytes, (std::vector<uint8_t>{120, 121, 122, 123, 125, 126, 127, 128, 130, 131,
                                           132, 133, 0,   0,   0,   0,   124, 0,   0,   0,
                                           129, 0,   0,   0,   134, 0,   0,   0}));
  EXPECT_EQ(q.dequantized, x);
  // 72 groups of 32 in a row of 2304, as TMA columns of bytes: 16 rows a column.
  const Recipe bytes = with(per_group(32), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma);
  EXPECT_EQ(strides_of(spec_of(view_of(nullptr, DType::e4m3, {3, 2304}), bytes)), (Shape{1, 16}));
}

// Row-major scales where column-major ones are asked for: an error naming strides, for one packed
// column in any orientation.
TEST(BugB41, OrientationIsChecked) {
  const Recipe packed = with(per_group(128), ScaleEncoding::ue8m0_packed);
  std::vector<uint8_t> codes(8 * 1024);
  std::vector<int32_t> words(64, 0x7F7F7F7F);
  std::vector<float> y(8 * 1024);
  const auto call = [&](int64_t k, const Shape& strides) {
    const int64_t columns = (k + 511) / 512;
    return dequantize(
        view_of(codes.data(), DType::e4m3, {8, k}),
        TensorView::strided(words.data(), DType::i32, {8, columns}, {strides[0], strides[1]}),
        packed, view_of(y.data(), DType::f32, {8, k}));
  };
  for (int64_t k : {128, 512}) {  // one word a row: both are the same memory
    EXPECT_TRUE(call(k, {1, 8}).ok());
    EXPECT_TRUE(call(k, {1, 1}).ok());
  }
  EXPECT_TRUE(call(1024, {1, 8}).ok());
  const Status status = call(1024, {2, 1});
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("strides [1, 8]"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("strides [2, 1]"), std::string::npos) << status.message();
}

// Packed scales for any group size; the unpacked bytes are those of the unpacked recipe.
TEST(BugB43, PackedForEveryGroupSize) {
  const auto bytes = make_data(Data::wide, DType::bf16, 5 * 640, 43);
  const TensorView x = view_of(bytes.data(), DType::bf16, {5, 640});
  for (int64_t group : {64, 128, 256}) {
    const Recipe packed = with(per_group(group), ScaleEncoding::ue8m0_packed);
    const int64_t groups = (640 + group - 1) / group;
    EXPECT_EQ(shape_of(spec_of(x, packed)), (Shape{5, (groups + 3) / 4}));
    EXPECT_EQ(strides_of(spec_of(x, packed)), (Shape{1, 8}));
    const Quantized q = quantized(x, packed);
    const Quantized plain = quantized(x, with(per_group(group), ScaleEncoding::ue8m0));
    EXPECT_EQ(q.codes, plain.codes);
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t g = 0; g < groups; ++g) {
        EXPECT_EQ(q.bytes[static_cast<size_t>((g / 4 * 8 + t) * 4 + g % 4)],
                  plain.bytes[static_cast<size_t>(t * groups + g)]);
      }
    }
  }
}

// Outputs of a wrong dtype, size or device: an error before any write.
TEST(BugB44, OutputsAreChecked) {
  std::vector<float> x(4 * 256, 1.0F);
  std::vector<uint8_t> codes(x.size(), 0xA5);
  std::vector<float> scales(64, -7.0F);
  const TensorView in = view_of(x.data(), DType::f32, {4, 256});
  const TensorView out = view_of(codes.data(), DType::e4m3, {4, 256});
  const TensorView scale = view_of(scales.data(), DType::f32, {4, 2});
  const auto refused = [&](const TensorView& c, const TensorView& s, const std::string& word) {
    const Status status = quantize(in, per_group(128), c, s);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
    EXPECT_EQ(codes, std::vector<uint8_t>(x.size(), 0xA5));
    EXPECT_EQ(scales, std::vector<float>(64, -7.0F));
  };
  refused(out, view_of(scales.data(), DType::f16, {4, 2}), "scales: expected f32");
  refused(out, view_of(scales.data(), DType::i32, {4, 2}), "scales: expected f32");
  refused(out, view_of(scales.data(), DType::f32, {4, 1}), "scales: expected f32 [4, 2]");
  refused(out, view_of(scales.data(), DType::f32, {3, 2}), "scales: expected f32 [4, 2]");
  refused(view_of(codes.data(), DType::e5m2, {4, 256}), scale, "codes: expected e4m3, got e5m2");
  refused(view_of(codes.data(), DType::ue8m0, {4, 256}), scale, "codes: expected e4m3");
  refused(view_of(codes.data(), DType::e4m3, {4, 255}), scale, "codes: expected rows [4] of 256");
  TensorView elsewhere = out;
  elsewhere.device = {DeviceType::cuda, 0};
  refused(elsewhere, scale, "codes: expected the device of x");
  elsewhere = scale;
  elsewhere.device = {DeviceType::cuda, 1};
  refused(out, elsewhere, "scales: expected the device of x");
  TensorView x_elsewhere = in;
  x_elsewhere.device = {DeviceType::cuda, 0};
  EXPECT_FALSE(quantize(x_elsewhere, per_group(128), out, scale).ok());
}

// What an earlier call left in the scale does not matter.
TEST(BugB52, TheScaleStartsAfresh) {
  std::vector<float> x(7 * 300, 1.0F);
  std::vector<uint8_t> codes(x.size());
  for (float old : {1e6F, NAN, -1.0F}) {
    float scale = old;
    for (float largest : {1.0F, 100.0F, 1.0F}) {
      x[1234] = largest;
      ASSERT_TRUE(quantize(view_of(x.data(), DType::f32, {7, 300}), per_tensor(),
                           view_of(codes.data(), DType::e4m3, {7, 300}),
                           TensorView::contiguous(&scale, DType::f32, {1}))
                      .ok());
      EXPECT_EQ(scale, largest / 448.0F);
    }
  }
}

// A weight of another dtype than the input is read as what it is.
TEST(BugB57, MixedWeightDType) {
  const auto x = make_data(Data::normal, DType::bf16, 3 * 256, 57);
  const auto residual = make_data(Data::normal, DType::bf16, 3 * 256, 58);
  const auto f32_weight = data_of(DType::f32, std::vector<float>(256, 1.5F));
  const auto bf16_weight = data_of(DType::bf16, std::vector<float>(256, 1.5F));
  const TensorView view = view_of(x.data(), DType::bf16, {3, 256});
  const auto run = [&](DType dtype, const std::vector<std::byte>& weight) {
    std::vector<std::byte> updated = residual;
    RmsNorm norm;
    norm.weight = view_of(weight.data(), dtype, {256});
    norm.residual = view_of(updated.data(), DType::bf16, {3, 256});
    Outputs out = call_quantizer(view, 256, per_group(128), {}, [&](const auto& c, const auto& s) {
      return rms_norm_quantize(view, norm, per_group(128), c, s);
    });
    out.row = updated;
    return out;
  };
  EXPECT_TRUE(same_outputs(run(DType::f32, f32_weight), run(DType::bf16, bf16_weight)));
  // A weight of 255 elements is refused.
  RmsNorm norm;
  norm.weight = view_of(f32_weight.data(), DType::f32, {255});
  std::vector<uint16_t> y(3 * 256);
  const Status status = rms_norm(view, norm, view_of(y.data(), DType::bf16, {3, 256}));
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("norm.weight: expected shape [256]"), std::string::npos);
}

// The same call with other batch sizes: views and recipes are values and do not change.
TEST(BugB60, CallsChangeNoArgument) {
  const Recipe recipe = with(per_tensor(), ScaleSource::given);
  const Recipe before = recipe;
  const float scale = 0.5F;
  const TensorView scale_view = TensorView::contiguous(&scale, DType::f32, {1});
  for (const Shape& shape : {Shape{3, 64}, Shape{5, 64}, Shape{2, 4, 64}}) {
    int64_t count = 1;
    for (int64_t n : shape) count *= n;
    std::vector<float> x(static_cast<size_t>(count), 1.0F);
    std::vector<uint8_t> codes(x.size());
    ASSERT_TRUE(quantize(view_of(x.data(), DType::f32, shape), recipe,
                         view_of(codes.data(), DType::e4m3, shape), scale_view)
                    .ok());
    EXPECT_EQ(codes, std::vector<uint8_t>(x.size(), 0x40));  // 1 / 0.5 = 2
    EXPECT_EQ(x, std::vector<float>(x.size(), 1.0F));
    EXPECT_EQ(scale, 0.5F);
    EXPECT_EQ(recipe, before);
  }
}

// The recipe says what a scale means; a shape never does.
TEST(BugB61, ScaleShapesMustMatchTheRecipe) {
  std::vector<float> x(4 * 256, 1.0F);
  std::vector<uint8_t> codes(x.size(), 0xA5);
  std::vector<float> scales(256, 1.0F);
  const auto call = [&](const Recipe& recipe, const Shape& shape) {
    return quantize(view_of(x.data(), DType::f32, {4, 256}), with(recipe, ScaleSource::given),
                    view_of(codes.data(), DType::e4m3, {4, 256}),
                    view_of(scales.data(), DType::f32, shape));
  };
  struct Case {
    Shape shape;
    bool tensor, token, column;
  };
  for (const Case& c : {Case{{}, true, false, false}, Case{{1}, true, false, false},
                        Case{{1, 1}, false, false, false}, Case{{4}, false, false, false},
                        Case{{4, 1}, false, true, false}, Case{{1, 256}, false, false, true},
                        Case{{2, 1}, false, false, false}}) {
    EXPECT_EQ(call(per_tensor(), c.shape).ok(), c.tensor) << c.shape.size();
    EXPECT_EQ(call(per_token(), c.shape).ok(), c.token) << c.shape.size();
    EXPECT_EQ(call(per_column(), c.shape).ok(), c.column) << c.shape.size();
  }
  // One row: per token and per tensor give the same numbers.
  const Quantized token = quantized(DType::f32, {3.0F, -1.0F}, {1, 2}, per_token());
  const Quantized tensor = quantized(DType::f32, {3.0F, -1.0F}, {1, 2}, per_tensor());
  EXPECT_EQ(token.codes, tensor.codes);
  EXPECT_EQ(token.scales, tensor.scales);
}

// Masked experts: rows at or beyond a count stay as they are, and NaN stays in its expert.
TEST(BugB75, MaskedRowsStay) {
  const int32_t counts[] = {3, 64};
  std::vector<float> x(2 * 64 * 128, NAN);
  std::fill_n(x.begin(), 3 * 128, 1.0F);
  std::fill_n(x.begin() + 64 * 128, 64 * 128, 2.0F);
  const TensorView view = view_of(x.data(), DType::f32, {2, 64, 128}).with_row_counts(counts);
  std::vector<uint8_t> codes(x.size(), 0x07);
  std::vector<float> scales(2 * 64, 7.0F);
  ASSERT_TRUE(quantize(view, per_group(128), view_of(codes.data(), DType::e4m3, {2, 64, 128}),
                       view_of(scales.data(), DType::f32, {2, 64, 1}))
                  .ok());
  for (size_t row = 0; row < 128; ++row) {
    const bool exists = row < 3 || row >= 64;
    EXPECT_EQ(scales[row], exists ? (row < 3 ? 1.0F : 2.0F) / 448.0F : 7.0F) << row;
    EXPECT_EQ(codes[row * 128], exists ? 0x7E : 0x07) << row;
  }
}

}  // namespace
}  // namespace rowscale::test
