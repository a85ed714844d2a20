// Refusals and permissions that belong to one operator or to views: as_rows misuse, rows side by
// side in one buffer, recipes of fused operators, ambiguous scales.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

void expect_refused(const Status& status, const std::vector<std::string>& words,
                    StatusCode code = StatusCode::invalid_argument) {
  EXPECT_EQ(status.code(), code) << status.message();
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos)
        << "'" << word << "' is not in: " << status.message();
  }
}

TEST(Interleaved, RowsSideBySideInOneBuffer) {
  // A row of 300 bytes: 64 bf16, 64 codes, one float scale, 40 bytes of another owner.
  constexpr int64_t kPitch = 300;
  constexpr int64_t kRows = 5;
  const auto data = make_data(Data::normal, DType::bf16, kRows * 64, 1);
  GuardedBuffer buffer(kRows * kPitch);
  for (int64_t r = 0; r < kRows; ++r) {
    std::memcpy(buffer.data() + r * kPitch, data.data() + r * 128, 128);
  }
  const TensorView x =
      TensorView::strided(buffer.data(), DType::bf16, {kRows, 64}, {kPitch / 2, 1});
  const TensorView codes =
      TensorView::strided(buffer.data() + 128, DType::e4m3, {kRows, 64}, {kPitch, 1});
  std::vector<float> scales(kRows);
  const TensorView scale_view = TensorView::contiguous(scales.data(), DType::f32, {kRows, 1});
  ASSERT_TRUE(quantize(x, per_token(), codes, scale_view).ok());
  const Outputs expected =
      run_quantize(view_of(data.data(), DType::bf16, {kRows, 64}), per_token());
  EXPECT_EQ(std::memcmp(scales.data(), expected.scales.data(), expected.scales.size()), 0);
  for (int64_t r = 0; r < kRows; ++r) {
    const std::byte* row = buffer.data() + r * kPitch;
    EXPECT_EQ(std::memcmp(row, data.data() + r * 128, 128), 0) << "the input changed";
    EXPECT_EQ(std::memcmp(row + 128, expected.codes.data() + r * 64, 64), 0);
    EXPECT_EQ(std::count(row + 192, row + kPitch, kPoison), kPitch - 192);
  }
  EXPECT_TRUE(buffer.guards_are_unchanged());

  // One byte to the left, or rows that reach into the next row's input.
  for (int64_t offset : {int64_t{127}, kPitch - 63}) {
    const TensorView wrong =
        TensorView::strided(buffer.data() + offset, DType::e4m3, {kRows, 64}, {kPitch, 1});
    expect_refused(quantize(x, per_token(), wrong, scale_view), {"codes", "overlaps x"});
  }
  // Another pitch: rows would meet sooner or later.
  const TensorView other =
      TensorView::strided(buffer.data() + 128, DType::e4m3, {kRows - 1, 64}, {kPitch + 1, 1});
  expect_refused(
      quantize(TensorView::strided(buffer.data(), DType::bf16, {kRows - 1, 64}, {kPitch / 2, 1}),
               per_token(), other,
               TensorView::contiguous(scales.data(), DType::f32, {kRows - 1, 1})),
      {"codes", "overlaps x"});
}

TEST(AsRows, Misuse) {
  std::vector<uint16_t> x(2 * 3 * 4);
  std::vector<uint8_t> codes(x.size());
  std::vector<float> scales(x.size());
  const TensorView view = TensorView::contiguous(x.data(), DType::bf16, {2, 3, 4});
  const TensorView to = TensorView::contiguous(codes.data(), DType::e4m3, {6, 4});
  const TensorView scale_view = TensorView::contiguous(scales.data(), DType::f32, {6, 1});
  for (const TensorView& wrong :
       {view.as_rows({0}, {2}), view.as_rows({0, 1}, {1}), view.as_rows({0, 1, 2}, {}),
        view.as_rows({0, 1}, {3}), view.as_rows({-1, 1}, {2}), view.as_rows({0, 0}, {2}),
        view.as_rows({0, 1, 2}, {2}), TensorView{}.as_rows({}, {0}),
        view.as_rows({0}, {2}).as_rows({0}, {1, 2})}) {
    EXPECT_LT(wrong.rank, 0);
    expect_refused(quantize(wrong, per_token(), to, scale_view), {"x: expected", "named once"});
  }
  expect_refused(quantize(TensorView::strided(x.data(), DType::bf16, {2, 3, 4}, {4, 1}),
                          per_token(), to, scale_view),
                 {"x: expected"});
  expect_refused(
      quantize(TensorView::contiguous(x.data(), DType::bf16, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
               per_token(), to, scale_view),
      {"x: expected"});
  // Columns must end in the contiguous dimension.
  expect_refused(quantize(view.as_rows({0}, {2, 1}), per_token(),
                          TensorView::contiguous(codes.data(), DType::e4m3, {2, 12}),
                          TensorView::contiguous(scales.data(), DType::f32, {2, 1})),
                 {"x: expected a stride of 1 in the last dimension"});
}

// What the words lead to: the view of attention's output, the scales of the codes.
TEST(Quantize, MessagesNameTheWayToTheRightView) {
  std::vector<float> x(3 * 4 * 8);
  std::vector<uint8_t> codes(x.size());
  std::vector<float> scales(12);
  const TensorView heads = view_of(x.data(), DType::f32, {3, 4, 8});
  const TensorView rows = view_of(codes.data(), DType::e4m3, {4, 24});
  const TensorView scale_view = view_of(scales.data(), DType::f32, {4, 1});
  EXPECT_EQ(quantize(heads, per_token(), rows, scale_view).message(),
            "codes: expected rows [3, 4] of 8 columns, as x, got rows [4] of 24 columns; as_rows() "
            "says which dimensions are rows");
  EXPECT_TRUE(quantize(heads.as_rows({1}, {0, 2}), per_token(), rows, scale_view).ok());
  // Other elements, no hint.
  EXPECT_EQ(quantize(heads, per_token(), view_of(codes.data(), DType::e4m3, {4, 23}), scale_view)
                .message(),
            "codes: expected rows [3, 4] of 8 columns, as x, got rows [4] of 23 columns");
  EXPECT_EQ(quantize(heads.as_rows({1}, {0, 2}), per_token(), rows,
                     view_of(scales.data(), DType::f32, {4}))
                .message(),
            "scales: expected f32 [4, 1] strides [1, 1], got f32 [4] strides [1] on cpu; "
            "scale_spec() of the codes makes the view");
}

TEST(Quantize, TransposedInputIsRefused) {
  // [256, 6] transposed: shape [6, 256], strides [1, 6] (B37).
  std::vector<float> x(6 * 256);
  std::vector<uint8_t> codes(x.size(), 0xA5);
  std::vector<float> scales(6, -7.0F);
  expect_refused(quantize(TensorView::strided(x.data(), DType::f32, {6, 256}, {1, 6}), per_token(),
                          view_of(codes.data(), DType::e4m3, {6, 256}),
                          view_of(scales.data(), DType::f32, {6, 1})),
                 {"x: expected a stride of 1", "[1, 6]"});
  EXPECT_EQ(codes, std::vector<uint8_t>(x.size(), 0xA5));
  EXPECT_EQ(scales, std::vector<float>(6, -7.0F));
}

TEST(Quantize, CodesOfAnotherFormat) {
  std::vector<float> x(256);
  std::vector<uint8_t> codes(256);
  float scale = 0;
  const TensorView x_view = view_of(x.data(), DType::f32, {1, 256});
  const TensorView scale_view = TensorView::contiguous(&scale, DType::f32, {1, 1});
  expect_refused(
      quantize(x_view, per_token(), view_of(codes.data(), DType::e5m2, {1, 256}), scale_view),
      {"codes: expected e4m3, got e5m2"});
  expect_refused(quantize(x_view, with(per_token(), Format::e5m2),
                          view_of(codes.data(), DType::e4m3, {1, 256}), scale_view),
                 {"codes: expected e5m2, got e4m3"});
}

// A scale's meaning comes from the recipe, never from its shape (B61).
TEST(Quantize, ScaleShapesThatMeanSomethingElse) {
  std::vector<float> x(4 * 256, 1.0F);
  std::vector<uint8_t> codes(x.size());
  std::vector<float> scales(256, 1.0F);
  const TensorView x_view = view_of(x.data(), DType::f32, {4, 256});
  const TensorView code_view = view_of(codes.data(), DType::e4m3, {4, 256});
  const Recipe tensor = with(per_tensor(), ScaleSource::given);
  const Recipe token = with(per_token(), ScaleSource::given);
  const auto call = [&](const Recipe& recipe, const std::vector<int64_t>& shape) {
    return quantize(x_view, recipe, code_view, view_of(scales.data(), DType::f32, shape));
  };
  EXPECT_TRUE(call(tensor, {}).ok());
  EXPECT_TRUE(call(tensor, {1}).ok());
  for (const auto& shape : {std::vector<int64_t>{1, 1}, {4}, {4, 1}, {1, 256}, {2, 1}}) {
    expect_refused(call(tensor, shape), {"scales: expected f32 [1]", "got f32 ["});
  }
  EXPECT_TRUE(call(token, {4, 1}).ok());
  for (const auto& shape : {std::vector<int64_t>{}, {1}, {4}, {1, 256}, {2, 1}, {1, 4}}) {
    expect_refused(call(token, shape), {"scales: expected f32 [4, 1]", "got f32 ["});
  }
  EXPECT_TRUE(call(per_column(), {1, 256}).ok());
  expect_refused(call(per_column(), {256}), {"scales: expected f32 [1, 256]"});
}

TEST(Fused, RecipesThatNeedTheWholeTensor) {
  std::vector<uint16_t> x(4 * 256, 0x3F80);
  std::vector<uint8_t> codes(4 * 256, 0xA5);
  std::vector<float> scales(64, -7.0F);
  std::vector<float> weight(256, 1.0F);
  RmsNorm norm;
  norm.weight = view_of(weight.data(), DType::f32, {256});
  const TensorView x_view = view_of(x.data(), DType::bf16, {4, 256});
  for (const Recipe& recipe : {per_tensor(), per_block(2, 128)}) {
    const TensorView code_view = view_of(codes.data(), DType::e4m3, {4, 256});
    const TensorView half_view = view_of(codes.data(), DType::e4m3, {4, 128});
    const TensorView scale_view = spec_of(code_view, recipe).view(scales.data());
    const TensorView half_scales = spec_of(half_view, recipe).view(scales.data());
    const std::vector<std::string> words = {"recipe.granularity", "dynamic",
                                            "run the separate operator, then quantize"};
    expect_refused(rms_norm_quantize(x_view, norm, recipe, code_view, scale_view), words);
    expect_refused(relu2_quantize(x_view, recipe, code_view, scale_view), words);
    expect_refused(silu_mul_quantize(x_view, recipe, half_view, half_scales), words);
    expect_refused(gelu_tanh_mul_quantize(x_view, recipe, half_view, half_scales), words);
    expect_refused(swiglu_clamped_quantize(x_view, {}, recipe, half_view, half_scales), words);
    // With given scales they are taken.
    std::fill(scales.begin(), scales.end(), 1.0F);
    EXPECT_TRUE(
        relu2_quantize(x_view, with(recipe, ScaleSource::given), code_view, scale_view).ok());
    std::fill(codes.begin(), codes.end(), 0xA5);
  }
  Recipe vllm = per_token();
  vllm.profile = Profile::vllm;
  const TensorView code_view = view_of(codes.data(), DType::e4m3, {4, 256});
  expect_refused(
      relu2_quantize(x_view, vllm, code_view, view_of(scales.data(), DType::f32, {4, 1})),
      {"recipe.profile", "rowscale", "vllm"}, StatusCode::unsupported);
  EXPECT_EQ(codes, std::vector<uint8_t>(4 * 256, 0xA5));
}

TEST(Producers, OddColumnsAndWeights) {
  std::vector<float> x(4 * 255);
  std::vector<float> y(4 * 255);
  const TensorView odd = view_of(x.data(), DType::f32, {4, 255});
  const TensorView half = view_of(y.data(), DType::f32, {4, 127});
  for (const Status& status :
       {silu_mul(odd, half), gelu_tanh_mul(odd, half), swiglu_clamped(odd, {}, half)}) {
    expect_refused(status, {"x: expected an even number of columns", "got 255"});
  }
  std::vector<float> weight(300, 1.5F);
  RmsNorm norm;
  const TensorView out = view_of(y.data(), DType::f32, {4, 255});
  for (const auto& shape : {std::vector<int64_t>{254}, {256}, {1, 255}, {255, 1}}) {
    norm.weight = view_of(weight.data(), DType::f32, shape);
    expect_refused(rms_norm(odd, norm, out), {"norm.weight: expected shape [255]"});
  }
  norm.weight = view_of(weight.data(), DType::f32, {255});
  norm.form = static_cast<NormForm>(7);
  expect_refused(rms_norm(odd, norm, out), {"norm.form: expected one of standard, gemma, got 7"});
  norm.form = NormForm::standard;
  EXPECT_TRUE(rms_norm(odd, norm, out).ok());
}

TEST(Requantize, OnlyTheSameMemoryMayBeReplaced) {
  std::vector<uint8_t> codes(4 * 64 + 64);
  float in_scale = 1;
  float out_scale = 0;
  const Recipe given = with(per_tensor(), ScaleSource::given);
  const TensorView in = view_of(codes.data(), DType::e4m3, {4, 64});
  const TensorView scale_in = TensorView::contiguous(&in_scale, DType::f32, {1});
  const TensorView scale_out = TensorView::contiguous(&out_scale, DType::f32, {1});
  const auto call = [&](const TensorView& out) {
    return requantize(in, scale_in, given, out, scale_out, per_tensor());
  };
  EXPECT_TRUE(call(in).ok());
  TensorView wrong = in;
  wrong.strides[0] = 65;
  expect_refused(call(wrong), {"codes_out", "overlaps codes_in"});
  wrong = in;
  wrong.data = codes.data() + 1;
  expect_refused(call(wrong), {"codes_out", "overlaps codes_in"});
  wrong = in;
  wrong.data = codes.data() + 63;
  expect_refused(call(wrong), {"codes_out", "overlaps codes_in"});
  expect_refused(requantize(in, scale_in, given, in, scale_in, per_tensor()),
                 {"scales_out", "overlaps scales_in"});
}

TEST(ScaleSpecOf, Misuse) {
  ScaleSpec spec;
  spec.storage = -3;
  expect_refused(scale_spec(TensorView::contiguous(static_cast<void*>(nullptr), DType::e4m3, {}),
                            per_token(), &spec),
                 {"codes: expected rank 1 to 8"});
  TensorView huge = TensorView::contiguous(static_cast<void*>(nullptr), DType::e4m3, {1, 1});
  huge.shape[0] = int64_t{1} << 40;
  huge.shape[1] = int64_t{1} << 40;
  expect_refused(scale_spec(huge, per_group(1), &spec), {"codes", "2^52"});
  huge.shape[0] = -1;
  expect_refused(scale_spec(huge, per_group(1), &spec), {"codes", "sizes >= 0"});
  huge.shape[0] = 1;
  expect_refused(scale_spec(huge, per_token(), nullptr), {"spec", "null"});
  EXPECT_EQ(spec.storage, -3);
}

}  // namespace
}  // namespace rowscale::test
