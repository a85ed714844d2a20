// Public bug reports about shapes, tails and paddings: docs/bug-cases.md.
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

// 100, then -100, at every place of a row of 0.1: tails, last lanes, both signs.
TEST(BugB24, TheMaximumIsFoundAtEveryPlace) {
  for (int64_t hidden : {128, 130, 4096, 4104}) {
    const int64_t step = hidden > 1000 ? 61 : 1;  // and the ends
    for (int64_t i = 0; i < hidden; i += (i < 70 || i > hidden - 70) ? 1 : step) {
      std::vector<float> x(static_cast<size_t>(hidden), 0.1F);
      const float value = i % 2 == 0 ? 100.0F : -100.0F;
      x[static_cast<size_t>(i)] = value;
      const Quantized q = quantized(DType::bf16, x, {1, hidden}, per_token());
      ASSERT_EQ(q.scales[0], 100.0F / 448.0F) << i << " of " << hidden;
      ASSERT_EQ(q.codes[static_cast<size_t>(i)], value > 0 ? 0x7E : 0xFE) << i << " of " << hidden;
    }
  }
}

// A group's scale depends on that group alone.
TEST(BugB25, LargeGroupsDoNotLeak) {
  struct Case {
    DType dtype;
    int64_t hidden, group;
  };
  for (const Case& c :
       {Case{DType::bf16, 1024, 512}, Case{DType::f32, 512, 256}, Case{DType::f32, 512, 512},
        Case{DType::bf16, 1024, 32}, Case{DType::bf16, 1024, 64}}) {
    for (int64_t loud = 0; loud < c.hidden / c.group; ++loud) {
      std::vector<float> x(static_cast<size_t>(c.hidden), 0.5F);
      for (int64_t i = loud * c.group; i < (loud + 1) * c.group; ++i) {
        x[static_cast<size_t>(i)] = 0x1p100F;
      }
      const Quantized q = quantized(c.dtype, x, {1, c.hidden}, per_group(c.group));
      for (int64_t g = 0; g < c.hidden / c.group; ++g) {
        EXPECT_EQ(q.scales[static_cast<size_t>(g)], (g == loud ? 0x1p100F : 0.5F) / 448.0F);
      }
      EXPECT_EQ(q.codes, std::vector<uint8_t>(static_cast<size_t>(c.hidden), 0x7E));
    }
  }
}

// Zero tokens through every operator; see also Empty.* for all recipes and [0, 0].
TEST(BugB28, EmptyInput) {
  const TensorView x = view_of(nullptr, DType::bf16, {0, 7168});
  const TensorView codes = view_of(nullptr, DType::e4m3, {0, 7168});
  for (const Recipe& recipe : group_recipes(128)) {
    const ScaleSpec spec = spec_of(codes, recipe);
    const int64_t columns = recipe.encoding == ScaleEncoding::ue8m0_packed ? 14 : 56;
    EXPECT_EQ(shape_of(spec), (Shape{0, columns})) << to_string(recipe);
    EXPECT_TRUE(quantize(x, recipe, codes, spec.view(static_cast<void*>(nullptr))).ok());
  }
  float scale = NAN;
  EXPECT_TRUE(
      quantize(x, per_tensor(), codes, TensorView::contiguous(&scale, DType::f32, {1})).ok());
  EXPECT_EQ(std::bit_cast<uint32_t>(scale), 0x36924925U);
  const TensorView none = view_of(nullptr, DType::f32, {0, 0});
  EXPECT_TRUE(quantize(none, per_token(), view_of(nullptr, DType::e4m3, {0, 0}),
                       view_of(nullptr, DType::f32, {0, 1}))
                  .ok());
}

// Widths that no vector divides: equal to a row whose tail is padded with zeros to a round width.
TEST(BugB29, TailsCount) {
  for (int64_t hidden : {1368, 1076, 3420, 1, 7, 15, 17, 127, 129}) {
    for (int64_t tokens : {1, 3, 17}) {
      auto values =
          values_of(DType::bf16, make_data(Data::normal, DType::bf16, tokens * hidden, 29));
      for (int64_t t = 0; t < tokens; ++t)
        values[static_cast<size_t>((t + 1) * hidden - 1)] = -50.0F;
      const Quantized q = quantized(DType::bf16, values, {tokens, hidden}, per_token());
      for (int64_t t = 0; t < tokens; ++t) {
        ASSERT_EQ(q.scales[static_cast<size_t>(t)], 50.0F / 448.0F) << hidden;
        ASSERT_EQ(q.codes[static_cast<size_t>((t + 1) * hidden - 1)], 0xFE) << hidden;
      }
      const int64_t padded = (hidden + 63) / 64 * 64;
      std::vector<float> round(static_cast<size_t>(tokens * padded), 0.0F);
      for (int64_t t = 0; t < tokens; ++t) {
        std::copy_n(values.begin() + t * hidden, hidden, round.begin() + t * padded);
      }
      const Quantized wide = quantized(DType::bf16, round, {tokens, padded}, per_token());
      for (int64_t t = 0; t < tokens; ++t) {
        ASSERT_TRUE(std::equal(q.codes.begin() + t * hidden, q.codes.begin() + (t + 1) * hidden,
                               wide.codes.begin() + t * padded))
            << hidden;
      }
    }
  }
}

// Any width that is a multiple of the group works, the odd multiples too.
TEST(BugB33, WidthsBetweenTheTunedOnes) {
  for (int64_t hidden : {64, 192, 320, 2880, 5120, 6144, 7168}) {
    for (int64_t group : {32, 64, 128}) {
      const auto bytes = make_data(Data::normal, DType::bf16, 2 * hidden, 33);
      const TensorView x = view_of(bytes.data(), DType::bf16, {2, hidden});
      const Quantized q = quantized(x, per_group(group));
      for (int64_t begin = 0; begin < hidden; begin += group) {
        const int64_t size = std::min(group, hidden - begin);
        const Quantized one = quantized(
            view_of(bytes.data() + (hidden + begin) * 2, DType::bf16, {1, size}), per_group(group));
        ASSERT_TRUE(
            std::equal(one.codes.begin(), one.codes.end(), q.codes.begin() + hidden + begin));
        const int64_t groups = (hidden + group - 1) / group;
        ASSERT_EQ(one.scales[0], q.scales[static_cast<size_t>(groups + begin / group)]);
      }
    }
  }
}

TEST(BugB34, PaddingOfTmaColumns) {
  for (int64_t m : {1, 2, 3, 4, 5, 7, 31, 33, 63, 65, 127, 129}) {
    const auto bytes = make_data(Data::normal, DType::bf16, m * 512, 34);
    const TensorView x = view_of(bytes.data(), DType::bf16, {m, 512});
    const Recipe tma = with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma);
    const ScaleSpec spec = spec_of(x, tma);
    const int64_t aligned = (m + 3) / 4 * 4;
    EXPECT_EQ(shape_of(spec), (Shape{m, 4}));
    EXPECT_EQ(strides_of(spec), (Shape{1, aligned}));
    const Quantized q = quantized(x, tma);
    const Quantized plain = quantized(x, per_group(128));
    ASSERT_EQ(q.scales.size(), static_cast<size_t>(m + 3 * aligned));
    for (int64_t g = 0; g < 4; ++g) {
      for (int64_t t = 0; t < aligned && g * aligned + t < m + 3 * aligned; ++t) {
        const float got = q.scales[static_cast<size_t>(g * aligned + t)];
        EXPECT_EQ(got, t < m ? plain.scales[static_cast<size_t>(t * 4 + g)] : 0.0F)
            << t << " " << g;
      }
    }
    EXPECT_EQ(q.codes, plain.codes);
  }
}

TEST(BugB35, LeadingDimensionsStay) {
  const auto bytes = make_data(Data::normal, DType::bf16, 24 * 256, 35);
  const auto spec_shape = [](const Shape& x, const Recipe& recipe) {
    return shape_of(spec_of(view_of(nullptr, DType::e4m3, x), recipe));
  };
  EXPECT_EQ(spec_shape({2, 3, 256}, per_token()), (Shape{2, 3, 1}));
  EXPECT_EQ(spec_shape({2, 3, 256}, per_group(128)), (Shape{2, 3, 2}));
  EXPECT_EQ(spec_shape({2, 3, 4, 256}, per_group(128)), (Shape{2, 3, 4, 2}));
  EXPECT_EQ(spec_shape({256}, per_token()), (Shape{1}));
  EXPECT_EQ(spec_shape({256}, per_group(128)), (Shape{2}));
  for (const Recipe& recipe : {per_token(), per_group(128)}) {
    const Quantized three = quantized(view_of(bytes.data(), DType::bf16, {2, 3, 256}), recipe);
    const Quantized flat = quantized(view_of(bytes.data(), DType::bf16, {6, 256}), recipe);
    EXPECT_EQ(three.codes, flat.codes);
    EXPECT_EQ(three.scales, flat.scales);
  }
  // An output of another rank is refused, though it has the same elements.
  std::vector<uint8_t> codes(6 * 256);
  std::vector<float> scales(6);
  const Status status = quantize(view_of(bytes.data(), DType::bf16, {2, 3, 256}), per_token(),
                                 view_of(codes.data(), DType::e4m3, {6, 256}),
                                 view_of(scales.data(), DType::f32, {6, 1}));
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
}

TEST(BugB36, PartialBlocks) {
  std::vector<float> w(192 * 200, 1.0F);
  for (int64_t r = 128; r < 192; ++r) {
    for (int64_t c = 128; c < 200; ++c) w[static_cast<size_t>(r * 200 + c)] = 3.0F;
  }
  const Quantized q = quantized(DType::bf16, w, {192, 200}, per_block(128, 128));
  const float one = 1.0F / 448.0F;
  EXPECT_EQ(q.scales, (std::vector<float>{one, one, one, 3.0F / 448.0F}));
  EXPECT_EQ(q.codes, std::vector<uint8_t>(192 * 200, 0x7E));
  EXPECT_EQ(q.dequantized, w);
  EXPECT_EQ(shape_of(spec_of(view_of(nullptr, DType::e4m3, {1, 129}), per_block(128, 128))),
            (Shape{1, 2}));
  const Quantized activations = quantized(DType::bf16, w, {192, 200}, per_group(128));
  EXPECT_EQ(activations.scales.size(), 192U * 2);
  EXPECT_EQ(activations.scales[2 * 191 + 1], 3.0F / 448.0F);
}

}  // namespace
}  // namespace rowscale::test
