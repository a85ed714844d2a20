// Profile vllm behind a norm and SiLU in what the golden files do not reach: views, masks,
// encodings that vLLM's operators lack, threads, and refusals. Bytes of plain calls:
// tests/golden/vllm.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

Recipe vllm(Recipe recipe) {
  recipe.profile = Profile::vllm;
  return recipe;
}

constexpr int64_t kRows = 6;
constexpr int64_t kHidden = 5000;  // two pieces of a row's sum, and a part of one

class VllmProfile : public testing::TestWithParam<DType> {
 protected:
  VllmProfile()
      : x_(make_data(Data::normal, GetParam(), kRows * kHidden, 1)),
        residual_(make_data(Data::normal, GetParam(), kRows * kHidden, 2)),
        weight_(make_data(Data::normal, GetParam(), kHidden, 3)) {}

  RmsNorm norm(const TensorView& residual) const {
    RmsNorm made;
    made.weight = view_of(weight_.data(), GetParam(), {kHidden});
    made.residual = residual;
    return made;
  }

  // Codes, scales and the residual afterwards, which is updated where it lies.
  Outputs normed(const TensorView& x, const TensorView& residual, const Recipe& recipe,
                 const Exec& exec = {}) const {
    return call_quantizer(
        x, kHidden, recipe, {}, [&](const TensorView& codes, const TensorView& scales) {
          return rms_norm_quantize(x, norm(residual), recipe, codes, scales, {}, exec);
        });
  }

  std::vector<std::byte> x_, residual_, weight_;
};

// Rows apart in a wider buffer, and columns that lie in two pieces: the bytes are those of
// contiguous rows, and between the rows of the residual nothing changes.
TEST_P(VllmProfile, ViewsOfANorm) {
  const DType dtype = GetParam();
  const int64_t size = element_size(dtype);
  for (const Recipe& recipe : {vllm(per_token()), vllm(per_group(128))}) {
    std::vector<std::byte> residual = residual_;
    const Outputs expected = normed(view_of(x_.data(), dtype, {kRows, kHidden}),
                                    view_of(residual.data(), dtype, {kRows, kHidden}), recipe);
    // As [2, rows, hidden / 2]: the halves of a row lie apart.
    const int64_t half = kHidden / 2;
    GuardedBuffer split_x(kRows * kHidden * size, 2);
    GuardedBuffer split_residual(kRows * kHidden * size, 2);
    const auto place = [&](int64_t row, int64_t part) {
      return (part * kRows + row) * half * size;
    };
    const auto at = [&](int64_t row, int64_t part) { return (row * 2 + part) * half * size; };
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t part : {0, 1}) {
        const auto bytes = static_cast<size_t>(half * size);
        std::memcpy(split_x.data() + place(row, part), x_.data() + at(row, part), bytes);
        std::memcpy(split_residual.data() + place(row, part), residual_.data() + at(row, part),
                    bytes);
      }
    }
    const auto rows = [&](GuardedBuffer& buffer) {
      return view_of(buffer.data(), dtype, {2, kRows, half}).as_rows({1}, {0, 2});
    };
    for (int threads : {1, 2}) {
      GuardedBuffer updated = split_residual;
      EXPECT_TRUE(same_outputs(
          normed(rows(split_x), rows(updated), recipe, on(Target::best, threads)), expected));
      EXPECT_TRUE(updated.guards_are_unchanged());
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t part : {0, 1}) {
          ASSERT_EQ(std::memcmp(updated.data() + place(row, part), residual.data() + at(row, part),
                                static_cast<size_t>(half * size)),
                    0)
              << "row " << row;
        }
      }
    }
  }
}

TEST_P(VllmProfile, MaskedRowsKeepTheirResidual) {
  const DType dtype = GetParam();
  const int64_t row_bytes = kHidden * element_size(dtype);
  const int32_t counts[] = {1, 3};
  std::vector<std::byte> all = residual_;
  std::vector<std::byte> some = residual_;
  const std::vector<int64_t> shape = {2, 3, kHidden};
  const TensorView x = view_of(x_.data(), dtype, shape);
  const Outputs whole = normed(x, view_of(all.data(), dtype, shape), vllm(per_token()));
  const Outputs masked =
      normed(x.with_row_counts(counts), view_of(some.data(), dtype, shape), vllm(per_token()));
  for (int64_t row = 0; row < kRows; ++row) {
    const bool exists = row % 3 < counts[row / 3];
    const std::vector<std::byte>& want = exists ? all : residual_;
    EXPECT_EQ(std::memcmp(some.data() + row * row_bytes, want.data() + row * row_bytes,
                          static_cast<size_t>(row_bytes)),
              0)
        << row;
    EXPECT_EQ(masked.codes[static_cast<size_t>(row * kHidden)],
              exists ? whole.codes[static_cast<size_t>(row * kHidden)] : kPoison);
  }
}

// UE8M0: vLLM's scale, rounded up to a power of two.
TEST_P(VllmProfile, PowersOfTwo) {
  const DType dtype = GetParam();
  const TensorView x = view_of(x_.data(), dtype, {kRows, kHidden});
  const auto silu = [&](const Recipe& recipe) {
    return call_quantizer(x, kHidden / 2, recipe, {},
                          [&](const TensorView& codes, const TensorView& scales) {
                            return silu_mul_quantize(x, recipe, codes, scales);
                          });
  };
  const auto plain = [&](const Recipe& recipe) { return normed(x, {}, recipe); };
  for (bool is_norm : {false, true}) {
    const Recipe recipe = vllm(per_group(128));
    const Recipe powers = with(recipe, ScaleEncoding::ue8m0_f32);
    const auto exact = values_of(DType::f32, (is_norm ? plain(recipe) : silu(recipe)).scales);
    const auto rounded = values_of(DType::f32, (is_norm ? plain(powers) : silu(powers)).scales);
    ASSERT_EQ(exact.size(), rounded.size());
    for (size_t i = 0; i < exact.size(); ++i) {
      ASSERT_LE(exact[i], rounded[i]);
      ASSERT_LT(rounded[i], 2 * exact[i]);
      int exponent = 0;
      ASSERT_EQ(std::frexp(rounded[i], &exponent), 0.5F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, VllmProfile, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& test) { return to_string(test.param); });

// Each cast point changes codes: without one of them the golden files would not be met.
TEST(VllmCastPoints, DifferFromTheChain) {
  const int64_t hidden = 4096;
  const auto x = make_data(Data::normal, DType::bf16, 4 * hidden, 11);
  const TensorView view = view_of(x.data(), DType::bf16, {4, hidden});
  // The chain with vLLM's rules for scales, so that only the rounding of rows is left.
  Recipe chain = per_token();
  chain.nan = NanRule::clamp_high;
  const auto differing = [](const Outputs& a, const Outputs& b) {
    size_t count = 0;
    for (size_t i = 0; i < a.codes.size(); ++i) count += a.codes[i] != b.codes[i] ? 1 : 0;
    return count;
  };
  const auto silu = [&](const Recipe& recipe) {
    return call_quantizer(view, hidden / 2, recipe, {},
                          [&](const TensorView& codes, const TensorView& scales) {
                            return silu_mul_quantize(view, recipe, codes, scales);
                          });
  };
  EXPECT_GT(differing(silu(vllm(per_token())), silu(chain)), 0U);

  const auto weight = make_data(Data::normal, DType::bf16, hidden, 12);
  const auto norm = [&](const Recipe& recipe) {
    auto residual = make_data(Data::normal, DType::bf16, 4 * hidden, 13);
    RmsNorm made;
    made.weight = view_of(weight.data(), DType::bf16, {hidden});
    made.residual = view_of(residual.data(), DType::bf16, {4, hidden});
    return call_quantizer(view, hidden, recipe, {},
                          [&](const TensorView& codes, const TensorView& scales) {
                            return rms_norm_quantize(view, made, recipe, codes, scales);
                          });
  };
  EXPECT_GT(differing(norm(vllm(per_token())), norm(chain)), 0U);
}

class VllmRefusals : public testing::Test {
 protected:
  void expect_refused(const Status& status, const std::string& message) const {
    EXPECT_EQ(status.code(), StatusCode::unsupported);
    EXPECT_EQ(status.message(), message);
    EXPECT_EQ(codes_, std::vector<uint8_t>(4 * 64, 0xA5));
  }
  Status norm(const Recipe& recipe, const RmsNorm& norm) {
    const TensorView codes = view_of(codes_.data(), code_dtype(recipe), {4, 64});
    return rms_norm_quantize(x_view_, norm, vllm(recipe), codes,
                             spec_of(codes, recipe).view(scales_.data()));
  }

  std::vector<std::byte> x_ = make_data(Data::normal, DType::bf16, 4 * 128, 1);
  std::vector<float> float_weight_ = std::vector<float>(128, 1.0F);
  std::vector<std::byte> weight_ = data_of(DType::bf16, float_weight_);
  std::vector<uint8_t> codes_ = std::vector<uint8_t>(4 * 64, 0xA5);
  std::vector<float> scales_ = std::vector<float>(4 * 64, 1.0F);
  TensorView x_view_ = view_of(x_.data(), DType::bf16, {4, 64});
  TensorView pairs_ = view_of(x_.data(), DType::bf16, {4, 128});
};

TEST_F(VllmRefusals, WhatVllmDoesNotHave) {
  RmsNorm plain;
  plain.weight = view_of(weight_.data(), DType::bf16, {64});
  const std::string expected =
      "recipe.granularity: expected given per_tensor, dynamic per_token or dynamic per_group under "
      "profile vllm, got ";
  expect_refused(norm(per_channel(), plain), expected + "dynamic per_channel");
  expect_refused(norm(per_column(), plain), expected + "given per_column");
  expect_refused(norm(with(per_token(), ScaleSource::given), plain), expected + "given per_token");
  RmsNorm gemma = plain;
  gemma.form = NormForm::gemma;
  expect_refused(norm(per_token(), gemma),
                 "norm.form: expected standard under profile vllm, got gemma");
  RmsNorm mixed = plain;
  mixed.weight = view_of(float_weight_.data(), DType::f32, {64});
  expect_refused(norm(per_token(), mixed),
                 "norm.weight: expected bf16, as x, under profile vllm, got f32");

  const TensorView codes = view_of(codes_.data(), DType::e4m3, {4, 64});
  const TensorView scales = view_of(scales_.data(), DType::f32, {4, 1});
  std::vector<std::byte> row(4 * 64 * 2);
  expect_refused(silu_mul_quantize(pairs_, vllm(per_token()), codes, scales,
                                   view_of(row.data(), DType::bf16, {4, 64})),
                 "row_out: expected none under profile vllm, which quantizes products in fp32");
  const std::string own =
      "recipe.profile: expected rowscale where vLLM has no such operator, got vllm";
  expect_refused(relu2_quantize(x_view_, vllm(per_token()), codes, scales), own);
  expect_refused(gelu_tanh_mul_quantize(pairs_, vllm(per_token()), codes, scales), own);
  expect_refused(swiglu_clamped_quantize(pairs_, {}, vllm(per_token()), codes, scales), own);

  // With nothing of that they run, a norm with its row too.
  EXPECT_TRUE(norm(per_token(), plain).ok());
  EXPECT_TRUE(silu_mul_quantize(pairs_, vllm(per_token()), codes, scales).ok());
  EXPECT_TRUE(rms_norm_quantize(x_view_, plain, vllm(per_token()), codes, scales,
                                view_of(row.data(), DType::bf16, {4, 64}))
                  .ok());
}

}  // namespace
}  // namespace rowscale::test
