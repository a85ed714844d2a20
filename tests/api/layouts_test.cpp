// Scale layouts byte by byte: small scale matrices written out by hand, an independent unpacker,
// and the strides that are accepted.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/api/exponent_data.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

// Scales of T=3 rows and G=5 groups are 2^(5t + g): bytes 127 + 5t + g.
constexpr int64_t kT = 3;
constexpr int64_t kG = 5;
std::vector<std::byte> quantized_scales(const Recipe& recipe) {
  const auto x = data_with_exponents(
      kT, kG, recipe.group_size, [](int64_t t, int64_t g) { return static_cast<int>(5 * t + g); });
  const TensorView view = view_of(x.data(), DType::f32, {kT, kG * recipe.group_size});
  return run_quantize(view, recipe).scales;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  return values_of(DType::f32, bytes);
}

std::vector<uint8_t> bytes_of(const std::vector<std::byte>& bytes) {
  std::vector<uint8_t> out(bytes.size());
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<uint32_t> words_of(const std::vector<std::byte>& bytes) {
  std::vector<uint32_t> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

constexpr float p(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(127 + exponent) << 23);
}

TEST(Layouts, RowMajor) {
  EXPECT_EQ(floats(quantized_scales(per_group(8))),
            (std::vector<float>{p(0), p(1), p(2), p(3), p(4),  //
                                p(5), p(6), p(7), p(8), p(9),  //
                                p(10), p(11), p(12), p(13), p(14)}));
  EXPECT_EQ(bytes_of(quantized_scales(with(per_group(8), ScaleEncoding::ue8m0))),
            (std::vector<uint8_t>{127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139,
                                  140, 141}));
}

TEST(Layouts, ColumnMajor) {
  EXPECT_EQ(
      floats(quantized_scales(with(per_group(8), ScaleEncoding::f32, ScaleLayout::column_major))),
      (std::vector<float>{p(0), p(5), p(10),  //
                          p(1), p(6), p(11),  //
                          p(2), p(7), p(12),  //
                          p(3), p(8), p(13),  //
                          p(4), p(9), p(14)}));
  EXPECT_EQ(bytes_of(quantized_scales(
                with(per_group(8), ScaleEncoding::ue8m0, ScaleLayout::column_major))),
            (std::vector<uint8_t>{127, 132, 137, 128, 133, 138, 129, 134, 139, 130, 135, 140, 131,
                                  136, 141}));
}

// Columns of four floats; the last column has no pad behind it.
TEST(Layouts, ColumnMajorTmaOfFloats) {
  const Recipe recipe = with(per_group(8), ScaleEncoding::f32, ScaleLayout::column_major_tma);
  EXPECT_EQ(floats(quantized_scales(recipe)), (std::vector<float>{p(0), p(5), p(10), 0,  //
                                                                  p(1), p(6), p(11), 0,  //
                                                                  p(2), p(7), p(12), 0,  //
                                                                  p(3), p(8), p(13), 0,  //
                                                                  p(4), p(9), p(14)}));
  const ScaleSpec spec = spec_of(view_of(nullptr, DType::e4m3, {kT, 40}), recipe);
  EXPECT_EQ(spec.storage, 3 + 4 * 4);
  EXPECT_EQ(spec.allocation, 5 * 4);
  EXPECT_EQ(strides_of(spec), (std::vector<int64_t>{1, 4}));
}

// Columns of sixteen bytes.
TEST(Layouts, ColumnMajorTmaOfBytes) {
  const Recipe recipe = with(per_group(8), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma);
  std::vector<uint8_t> expected(3 + 4 * 16, 0);
  for (size_t g = 0; g < 5; ++g) {
    for (size_t t = 0; t < 3; ++t) expected[16 * g + t] = static_cast<uint8_t>(127 + 5 * t + g);
  }
  EXPECT_EQ(bytes_of(quantized_scales(recipe)), expected);
  const ScaleSpec spec = spec_of(view_of(nullptr, DType::e4m3, {kT, 40}), recipe);
  EXPECT_EQ(spec.allocation, 5 * 16);
}

// Two words a row: groups 0..3, then group 4 and three absent ones; columns of four words.
TEST(Layouts, Packed) {
  const Recipe recipe = with(per_group(8), ScaleEncoding::ue8m0_packed);
  EXPECT_EQ(words_of(quantized_scales(recipe)),
            (std::vector<uint32_t>{0x8281807F, 0x87868584, 0x8C8B8A89, 0,  //
                                   0x00000083, 0x00000088, 0x0000008D}));
  const ScaleSpec spec = spec_of(view_of(nullptr, DType::e4m3, {kT, 40}), recipe);
  EXPECT_EQ(spec.dtype, DType::i32);
  EXPECT_EQ(shape_of(spec), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(strides_of(spec), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(spec.storage, 7);
  EXPECT_EQ(spec.allocation, 8);
}

// Rows of block scales padded to four; none behind the last row.
TEST(Layouts, BlockK4) {
  const auto x = data_with_exponents(
      2, 5, 4, [](int64_t t, int64_t g) { return static_cast<int>(5 * t + g); });
  const TensorView view = view_of(x.data(), DType::f32, {2, 20});
  Recipe recipe = with(per_block(1, 4), ScaleEncoding::f32, ScaleLayout::block_k4);
  EXPECT_EQ(floats(run_quantize(view, recipe).scales),
            (std::vector<float>{p(0), p(1), p(2), p(3), p(4), 0, 0, 0,  //
                                p(5), p(6), p(7), p(8), p(9)}));
  recipe.encoding = ScaleEncoding::ue8m0;
  EXPECT_EQ(bytes_of(run_quantize(view, recipe).scales),
            (std::vector<uint8_t>{127, 128, 129, 130, 131, 0, 0, 0, 132, 133, 134, 135, 136}));
  const ScaleSpec spec = spec_of(view, recipe);
  EXPECT_EQ(strides_of(spec), (std::vector<int64_t>{8, 1}));
  EXPECT_EQ(spec.storage, 13);
  EXPECT_EQ(spec.allocation, 16);
}

// Matrix after matrix; what lies between the last scale of one and the first of the next stays.
TEST(Layouts, BatchesOfTma) {
  const auto x = data_with_exponents(
      4, 2, 8, [](int64_t t, int64_t g) { return static_cast<int>(2 * t + g); });
  const TensorView view = view_of(x.data(), DType::f32, {2, 2, 16});
  const Recipe recipe = with(per_group(8), ScaleEncoding::f32, ScaleLayout::column_major_tma);
  const float untouched = std::bit_cast<float>(0xA5A5A5A5U);
  EXPECT_EQ(floats(run_quantize(view, recipe).scales),
            (std::vector<float>{p(0), p(2), 0, 0, p(1), p(3), untouched, untouched,  //
                                p(4), p(6), 0, 0, p(5), p(7)}));
}

// The documented address of (row, group) in each layout, by another hand: value 2^e -> e.
int exponent_at(const Recipe& recipe, const std::vector<std::byte>& scales, int64_t rows,
                int64_t groups, int64_t t, int64_t g) {
  int64_t index = 0;
  const int64_t bytes = recipe.encoding == ScaleEncoding::ue8m0 ? 1 : 4;
  if (recipe.encoding == ScaleEncoding::ue8m0_packed) {
    const int64_t aligned = (rows + 3) / 4 * 4;
    index = (g / 4 * aligned + t) * 4 + g % 4;
    return std::to_integer<int>(scales[static_cast<size_t>(index)]) - 127;
  }
  switch (recipe.layout) {
    case ScaleLayout::column_major:
      index = g * rows + t;
      break;
    case ScaleLayout::column_major_tma: {
      const int64_t unit = 16 / bytes;
      index = g * ((rows + unit - 1) / unit * unit) + t;
      break;
    }
    default:
      index = t * groups + g;
  }
  if (bytes == 1) return std::to_integer<int>(scales[static_cast<size_t>(index)]) - 127;
  float value;
  std::memcpy(&value, scales.data() + index * 4, 4);
  return std::ilogb(value);
}

// Distinct powers of two, read back by the unpacker: every layout and many sizes (B40).
TEST(Layouts, IndependentUnpacker) {
  for (int64_t rows : {1, 2, 3, 4, 5, 15, 16, 17, 33}) {
    for (int64_t groups : {1, 2, 3, 4, 5, 8, 9}) {
      // Distinct in a row and in neighbouring rows, from 2^-40 up.
      const auto tag = [](int64_t t, int64_t g) {
        return static_cast<int>((t * 13 + g * 5) % 79) - 32;
      };
      const auto x = data_with_exponents(rows, groups, 4, tag);
      const TensorView view = view_of(x.data(), DType::f32, {rows, groups * 4});
      for (const Recipe& recipe : group_recipes(4)) {
        const auto scales = run_quantize(view, recipe).scales;
        for (int64_t t = 0; t < rows; ++t) {
          for (int64_t g = 0; g < groups; ++g) {
            ASSERT_EQ(exponent_at(recipe, scales, rows, groups, t, g), tag(t, g))
                << "[" << t << ", " << g << "] of [" << rows << ", " << groups
                << "]: " << to_string(recipe);
          }
        }
      }
    }
  }
}

// One row or one column: both stride patterns are the same memory (B41).
TEST(Strides, OfADimensionOfOneDoNotMatter) {
  struct Case {
    std::vector<int64_t> data;
    std::vector<int64_t> strides;
  };
  for (const Recipe& recipe : group_recipes(128)) {
    for (const Case& c :
         {Case{{1, 512}, {1, 1}}, Case{{1, 512}, {999, 1}}, Case{{8, 128}, {1, 8}},
          Case{{8, 128}, {1, 16}}, Case{{8, 128}, {1, -3}}, Case{{1, 128}, {7, -7}}}) {
      const auto x = make_data(Data::normal, DType::bf16, c.data[0] * c.data[1], 2);
      std::vector<uint8_t> codes(static_cast<size_t>(c.data[0] * c.data[1]));
      const TensorView code_view = view_of(codes.data(), DType::e4m3, c.data);
      const ScaleSpec spec = spec_of(code_view, recipe);
      std::vector<std::byte> scales(static_cast<size_t>(scale_bytes(spec)));
      TensorView view = spec.view(scales.data());
      for (int i = 0; i < 2; ++i) {
        if (view.shape[i] == 1) view.strides[i] = c.strides[static_cast<size_t>(i)];
      }
      const Status status =
          quantize(view_of(x.data(), DType::bf16, c.data), recipe, code_view, view);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(
          same_bytes(scales, run_quantize(view_of(x.data(), DType::bf16, c.data), recipe).scales));
    }
  }
}

// With more of both, a wrong orientation is refused and the message shows both strides (B41).
TEST(Strides, WrongOrientationIsRefused) {
  for (int64_t hidden : {1024, 2048}) {
    std::vector<std::byte> x(static_cast<size_t>(8 * hidden * 2));
    std::vector<std::byte> codes(static_cast<size_t>(8 * hidden));
    std::vector<std::byte> scales(64 * 1024, kPoison);
    const TensorView code_view = view_of(codes.data(), DType::e4m3, {8, hidden});
    for (const Recipe& recipe : group_recipes(128)) {
      const ScaleSpec spec = spec_of(code_view, recipe);
      TensorView view = spec.view(scales.data());
      std::swap(view.strides[0], view.strides[1]);
      const Status status =
          quantize(view_of(x.data(), DType::bf16, {8, hidden}), recipe, code_view, view);
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << to_string(recipe);
      const auto text = [](int64_t a, int64_t b) {
        return "strides [" + std::to_string(a) + ", " + std::to_string(b) + "]";
      };
      EXPECT_NE(status.message().find("scales: expected"), std::string::npos);
      EXPECT_NE(status.message().find(text(spec.strides[0], spec.strides[1])), std::string::npos)
          << status.message();
      EXPECT_NE(status.message().find(text(spec.strides[1], spec.strides[0])), std::string::npos)
          << status.message();
    }
    EXPECT_EQ(std::count(scales.begin(), scales.end(), kPoison), 64 * 1024);
  }
}

}  // namespace
}  // namespace rowscale::test
