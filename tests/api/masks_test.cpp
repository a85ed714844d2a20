// Masked rows: rows at or beyond a batch's count are neither read nor written, nor are their
// scales.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

constexpr int64_t kBatches = 6;
constexpr int64_t kRows = 5;
constexpr int64_t kHidden = 150;
// Below 0, none, some, all but one, all, and beyond: clamped to 0 .. rows.
constexpr int32_t kCounts[kBatches] = {-7, 0, 2, 4, 5, 99};
constexpr int64_t kValid[kBatches] = {0, 0, 2, 4, 5, 5};

// Data whose masked rows are NaN of one sign and infinities: any look at them shows.
std::vector<std::byte> masked_data(int64_t hidden, uint64_t seed) {
  auto bytes = make_data(Data::normal, DType::bf16, kBatches * kRows * hidden, seed);
  for (int64_t b = 0; b < kBatches; ++b) {
    for (int64_t i = kValid[b] * hidden; i < kRows * hidden; ++i) {
      const uint16_t poison = i % 2 == 0 ? 0xFFC1 : 0x7F80;
      std::memcpy(bytes.data() + (b * kRows * hidden + i) * 2, &poison, 2);
    }
  }
  return bytes;
}

// Where the scale of (batch, row, group) lies, by the documented formula, and how many bytes it
// has.
struct Place {
  int64_t offset;
  int64_t bytes;
};

Place place_of(const ScaleSpec& spec, const Recipe& recipe, int64_t batch, int64_t row,
               int64_t group) {
  if (recipe.encoding == ScaleEncoding::ue8m0_packed) {
    return {(batch * spec.strides[0] + row + group / 4 * spec.strides[2]) * 4 + group % 4, 1};
  }
  const int64_t size = element_size(spec.dtype);
  return {(batch * spec.strides[0] + row * spec.strides[1] + group * spec.strides[2]) * size, size};
}

void expect_masked(const Recipe& recipe, const Outputs& got, const std::vector<std::byte>& x,
                   const TensorView& codes_shape) {
  const ScaleSpec spec = spec_of(codes_shape, recipe);
  const int64_t groups = recipe.encoding == ScaleEncoding::ue8m0_packed
                             ? (kHidden + recipe.group_size - 1) / recipe.group_size
                             : spec.shape[2];
  std::vector<std::byte> expected_scales(got.scales.size(), kPoison);
  for (int64_t b = 0; b < kBatches; ++b) {
    for (int64_t r = 0; r < kRows; ++r) {
      const std::vector<std::byte> codes(got.codes.begin() + (b * kRows + r) * kHidden,
                                         got.codes.begin() + (b * kRows + r + 1) * kHidden);
      if (r >= kValid[b]) {
        EXPECT_TRUE(same_bytes(codes, std::vector<std::byte>(kHidden, kPoison)))
            << "batch " << b << " row " << r << ": " << to_string(recipe);
        continue;
      }
      // A row that exists is what it is alone.
      const TensorView row =
          view_of(x.data() + (b * kRows + r) * kHidden * 2, DType::bf16, {1, kHidden});
      const Outputs alone = run_quantize(row, recipe);
      EXPECT_TRUE(same_bytes(codes, alone.codes))
          << "batch " << b << " row " << r << ": " << to_string(recipe);
      const ScaleSpec alone_spec = spec_of(row, recipe);
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t from = recipe.encoding == ScaleEncoding::ue8m0_packed
                                 ? g / 4 * alone_spec.strides[1] * 4 + g % 4
                                 : g * alone_spec.strides[1] * element_size(spec.dtype);
        const Place to = place_of(spec, recipe, b, r, g);
        std::copy_n(alone.scales.begin() + from, to.bytes, expected_scales.begin() + to.offset);
      }
      // Absent groups of a written row are zero.
      if (recipe.encoding == ScaleEncoding::ue8m0_packed) {
        for (int64_t g = groups; g < spec.shape[2] * 4; ++g) {
          const Place to = place_of(spec, recipe, b, r, g);
          expected_scales[static_cast<size_t>(to.offset)] = std::byte{0};
        }
      }
    }
  }
  EXPECT_TRUE(same_bytes(got.scales, expected_scales)) << to_string(recipe);
}

TEST(Masks, RowsWithScalesOfTheirOwn) {
  const auto x = masked_data(kHidden, 1);
  const TensorView view =
      view_of(x.data(), DType::bf16, {kBatches, kRows, kHidden}).with_row_counts(kCounts);
  std::vector<Recipe> recipes = group_recipes(16);
  recipes.push_back(per_token());
  recipes.push_back(per_channel());
  recipes.push_back(per_group(kHidden));
  for (const Recipe& recipe : recipes) {
    for (int threads : {1, 2}) {
      CallOptions options;
      options.exec.threads = threads;
      expect_masked(recipe, run_quantize(view, recipe, options), x, view);
    }
  }
}

// Of a block, only rows that exist count.
TEST(Masks, Blocks) {
  const auto x = masked_data(kHidden, 2);
  const TensorView view =
      view_of(x.data(), DType::bf16, {kBatches, kRows, kHidden}).with_row_counts(kCounts);
  const Recipe recipe = per_block(3, 100);
  const Outputs got = run_quantize(view, recipe);
  std::vector<std::byte> codes(got.codes.size(), kPoison);
  std::vector<std::byte> scales(got.scales.size(), kPoison);
  for (int64_t b = 0; b < kBatches; ++b) {
    if (kValid[b] == 0) continue;
    const Outputs alone = run_quantize(
        view_of(x.data() + b * kRows * kHidden * 2, DType::bf16, {kValid[b], kHidden}), recipe);
    std::copy(alone.codes.begin(), alone.codes.end(), codes.begin() + b * kRows * kHidden);
    std::copy(alone.scales.begin(), alone.scales.end(), scales.begin() + b * 2 * 2 * 4);
  }
  EXPECT_TRUE(same_bytes(got.codes, codes));
  EXPECT_TRUE(same_bytes(got.scales, scales));
}

TEST(Masks, OneScaleForAll) {
  auto x = masked_data(kHidden, 3);
  const float largest = 448.0F;
  store_value(DType::bf16, largest, x.data() + (4 * kRows * kHidden + 3) * 2);
  const TensorView view =
      view_of(x.data(), DType::bf16, {kBatches, kRows, kHidden}).with_row_counts(kCounts);
  const Outputs got = run_quantize(view, per_tensor());
  EXPECT_EQ(values_of(DType::f32, got.scales), (std::vector<float>{1.0F}));  // no infinity was seen
  for (int64_t b = 0; b < kBatches; ++b) {
    for (int64_t i = 0; i < kRows * kHidden; ++i) {
      const bool poisoned = got.codes[static_cast<size_t>(b * kRows * kHidden + i)] == kPoison;
      if (i >= kValid[b] * kHidden) {
        ASSERT_TRUE(poisoned) << "batch " << b << " element " << i;
      }
    }
  }
  // All masked: the scale of no elements.
  const std::vector<int32_t> none(kBatches, 0);
  const Outputs empty = run_quantize(view.with_row_counts(none.data()), per_tensor());
  EXPECT_EQ(std::bit_cast<uint32_t>(values_of(DType::f32, empty.scales)[0]), 0x36924925U);
}

TEST(Masks, TwoDimensionsBeforeTheRows) {
  const auto x = masked_data(kHidden, 4);
  const TensorView flat =
      view_of(x.data(), DType::bf16, {kBatches, kRows, kHidden}).with_row_counts(kCounts);
  const TensorView nested =
      view_of(x.data(), DType::bf16, {2, kBatches / 2, kRows, kHidden}).with_row_counts(kCounts);
  EXPECT_TRUE(same_outputs(run_quantize(nested, per_group(32)), run_quantize(flat, per_group(32))));
  // Without a batch dimension there is one count.
  const int32_t two = 2;
  const TensorView one = view_of(x.data() + 4 * kRows * kHidden * 2, DType::bf16, {kRows, kHidden});
  const Outputs masked = run_quantize(one.with_row_counts(&two), per_token());
  const Outputs all = run_quantize(one, per_token());
  EXPECT_TRUE(
      std::equal(masked.codes.begin(), masked.codes.begin() + 2 * kHidden, all.codes.begin()));
  EXPECT_EQ(masked.codes[2 * kHidden], kPoison);
  EXPECT_EQ(masked.scales[8], kPoison);
}

TEST(Masks, DequantizeAndRequantize) {
  std::vector<uint8_t> codes(kBatches * kRows * kHidden);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 5 % 120);
  const TensorView view =
      view_of(codes.data(), DType::e4m3, {kBatches, kRows, kHidden}).with_row_counts(kCounts);
  const Recipe in = per_group(64);
  const ScaleSpec spec = spec_of(view, in);
  const auto scales = make_scales(spec, ScaleEncoding::ue8m0_f32, 6);
  const TensorView unmasked = view.with_row_counts(nullptr);

  const auto y = run_dequantize(view, spec.view(scales.data()), in, DType::f16);
  const auto all = run_dequantize(unmasked, spec.view(scales.data()), in, DType::f16);
  const Recipe out = with(per_group(50), ScaleEncoding::ue8m0);
  const auto requantized = [&](const TensorView& codes_in) {
    return call_quantizer(codes_in, kHidden, out, {},
                          [&](const TensorView& c, const TensorView& s) {
                            return requantize(codes_in, spec.view(scales.data()), in, c, s, out);
                          });
  };
  const Outputs some_codes = requantized(view);
  const Outputs all_codes = requantized(unmasked);
  for (int64_t b = 0; b < kBatches; ++b) {
    for (int64_t r = 0; r < kRows; ++r) {
      const int64_t at = (b * kRows + r) * kHidden;
      const bool exists = r < kValid[b];
      for (int64_t i = at; i < at + kHidden; ++i) {
        const auto index = static_cast<size_t>(i);
        ASSERT_EQ(y[2 * index], exists ? all[2 * index] : kPoison) << b << " " << r;
        ASSERT_EQ(some_codes.codes[index], exists ? all_codes.codes[index] : kPoison);
      }
      for (int64_t i = (b * kRows + r) * 3; i < (b * kRows + r + 1) * 3; ++i) {
        const auto index = static_cast<size_t>(i);
        ASSERT_EQ(some_codes.scales[index], exists ? all_codes.scales[index] : kPoison);
      }
    }
  }
}

TEST(Masks, RelayoutOfExistingRows) {
  const Recipe in = with(per_group(16), ScaleEncoding::ue8m0);
  const Recipe out = with(per_group(16), ScaleEncoding::ue8m0_packed);
  const TensorView codes =
      view_of(nullptr, DType::e4m3, {kBatches, kRows, kHidden}).with_row_counts(kCounts);
  const ScaleSpec in_spec = spec_of(codes, in);
  const ScaleSpec out_spec = spec_of(codes, out);
  const auto scales = make_scales(in_spec, in.encoding, 8);
  GuardedBuffer packed(scale_bytes(out_spec));
  ASSERT_TRUE(
      relayout_scales(codes, in_spec.view(scales.data()), in, out_spec.view(packed.data()), out)
          .ok());
  std::vector<std::byte> expected(static_cast<size_t>(packed.size()), kPoison);
  for (int64_t b = 0; b < kBatches; ++b) {
    for (int64_t r = 0; r < kValid[b]; ++r) {
      for (int64_t g = 0; g < 12; ++g) {  // 10 groups in 3 words
        const Place to = place_of(out_spec, out, b, r, g);
        const Place from = place_of(in_spec, in, b, r, g);
        expected[static_cast<size_t>(to.offset)] =
            g < 10 ? scales[static_cast<size_t>(from.offset)] : std::byte{0};
      }
    }
  }
  EXPECT_TRUE(same_bytes(packed.content(), expected));
  EXPECT_TRUE(packed.guards_are_unchanged());
}

// The experts of a mixture: [experts, max_tokens, hidden] with counts of every kind, and NaN and
// infinities in the rows beyond. Every expert's rows are what they are alone.
void expect_experts(int64_t experts, const Recipe& recipe, bool is_silu) {
  constexpr int64_t kTokens = 3;
  constexpr int64_t kColumns = 40;
  const int64_t width = is_silu ? 2 * kColumns : kColumns;
  std::vector<int32_t> counts(static_cast<size_t>(experts));
  constexpr int32_t kKinds[] = {2, 0, 1, 3, INT32_MIN, -1, 4, INT32_MAX};
  for (size_t e = 0; e < counts.size(); ++e) counts[e] = kKinds[e % 8];
  const auto valid = [&](int64_t e) {
    return std::clamp<int64_t>(counts[static_cast<size_t>(e)], 0, kTokens);
  };
  auto x = make_data(Data::normal, DType::bf16, experts * kTokens * width, 31);
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t i = valid(e) * width; i < kTokens * width; ++i) {
      const uint16_t poison = i % 2 == 0 ? 0xFFC1 : 0x7F80;
      std::memcpy(x.data() + (e * kTokens * width + i) * 2, &poison, 2);
    }
  }
  const auto run = [&](const TensorView& view, int threads) {
    return call_quantizer(
        view, kColumns, recipe, {}, [&](const TensorView& codes, const TensorView& scales) {
          const Exec exec = on(Target::best, threads);
          return is_silu ? silu_mul_quantize(view, recipe, codes, scales, {}, exec)
                         : quantize(view, recipe, codes, scales, exec);
        });
  };
  const TensorView view =
      view_of(x.data(), DType::bf16, {experts, kTokens, width}).with_row_counts(counts.data());
  const Outputs got = run(view, 2);
  EXPECT_TRUE(same_outputs(run(view, 1), got));

  Outputs expected;
  expected.codes.assign(got.codes.size(), kPoison);
  expected.scales.assign(got.scales.size(), kPoison);
  const ScaleSpec spec =
      spec_of(view_of(nullptr, DType::e4m3, {experts, kTokens, kColumns}), recipe);
  const int64_t groups = recipe.granularity == Granularity::per_token
                             ? 1
                             : (kColumns + recipe.group_size - 1) / recipe.group_size;
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t row = 0; row < valid(e); ++row) {
      const TensorView alone_view =
          view_of(x.data() + (e * kTokens + row) * width * 2, DType::bf16, {1, 1, width});
      const Outputs alone = run(alone_view, 1);
      std::copy(alone.codes.begin(), alone.codes.end(),
                expected.codes.begin() + (e * kTokens + row) * kColumns);
      const ScaleSpec of_one = spec_of(view_of(nullptr, DType::e4m3, {1, 1, kColumns}), recipe);
      const bool is_packed = recipe.encoding == ScaleEncoding::ue8m0_packed;
      for (int64_t g = 0; g < (is_packed ? spec.shape[2] * 4 : groups); ++g) {
        const Place from = place_of(of_one, recipe, 0, 0, g);
        const Place to = place_of(spec, recipe, e, row, g);
        std::copy_n(alone.scales.begin() + from.offset, to.bytes,
                    expected.scales.begin() + to.offset);
      }
    }
  }
  EXPECT_TRUE(same_outputs(got, expected)) << experts << " experts: " << to_string(recipe);
}

TEST(Masks, Experts) {
  for (int64_t experts : {1, 2, 9, 1025}) {
    for (const Recipe& recipe :
         {per_token(), per_group(16),
          with(per_group(7), ScaleEncoding::f32, ScaleLayout::column_major),
          with(per_group(8), ScaleEncoding::f32, ScaleLayout::column_major_tma),
          with(per_group(8), ScaleEncoding::ue8m0_packed)}) {
      for (bool is_silu : {false, true}) expect_experts(experts, recipe, is_silu);
    }
  }
}

// All experts empty: nothing is touched, whatever lies in the rows.
TEST(Masks, NoTokensForAnyExpert) {
  const std::vector<std::byte> x(static_cast<size_t>(1025 * 2 * 32 * 2), std::byte{0xFF});  // NaN
  const std::vector<int32_t> counts(1025, 0);
  const TensorView view =
      view_of(x.data(), DType::bf16, {1025, 2, 32}).with_row_counts(counts.data());
  const Outputs got = run_quantize(view, with(per_group(16), ScaleEncoding::ue8m0_packed));
  EXPECT_TRUE(same_bytes(got.codes, std::vector<std::byte>(got.codes.size(), kPoison)));
  EXPECT_TRUE(same_bytes(got.scales, std::vector<std::byte>(got.scales.size(), kPoison)));
}

// Rows sorted by expert are rows: those of an expert have the bytes that they have alone, in
// whatever order and beside whatever rows they come.
TEST(Masks, RowsSortedByExpertNeedNothing) {
  constexpr int64_t kColumns = 96;
  constexpr int64_t kOf[] = {3, 0, 1, 7, 2};  // rows of each expert
  const auto x = make_data(Data::wide, DType::bf16, 13 * 2 * kColumns, 33);
  for (const Recipe& recipe : {per_token(), per_group(32)}) {
    const auto run = [&](int64_t first, int64_t rows) {
      const TensorView view =
          view_of(x.data() + first * 2 * kColumns * 2, DType::bf16, {rows, 2 * kColumns});
      return call_quantizer(view, kColumns, recipe, {},
                            [&](const TensorView& codes, const TensorView& scales) {
                              return silu_mul_quantize(view, recipe, codes, scales);
                            });
    };
    const Outputs sorted = run(0, 13);
    Outputs by_expert;
    int64_t first = 0;
    for (int64_t rows : kOf) {
      const Outputs one = run(first, rows);
      by_expert.codes.insert(by_expert.codes.end(), one.codes.begin(), one.codes.end());
      by_expert.scales.insert(by_expert.scales.end(), one.scales.begin(), one.scales.end());
      first += rows;
    }
    EXPECT_EQ(first, 13);
    EXPECT_TRUE(same_outputs(by_expert, sorted)) << to_string(recipe);
  }
}

TEST(Masks, Producers) {
  const auto x = masked_data(2 * kHidden, 7);
  const TensorView view =
      view_of(x.data(), DType::bf16, {kBatches, kRows, 2 * kHidden}).with_row_counts(kCounts);
  const auto y = call_into_rows(view, kHidden, DType::bf16,
                                [&](const TensorView& v) { return silu_mul(view, v); });
  // A masked residual is left alone, and so is the row that was to be stored.
  const auto small = masked_data(kHidden, 8);
  std::vector<float> weight(kHidden, 1.0F);
  auto residual = make_data(Data::normal, DType::bf16, kBatches * kRows * kHidden, 9);
  const auto before = residual;
  RmsNorm norm;
  norm.weight = view_of(weight.data(), DType::f32, {kHidden});
  norm.residual = view_of(residual.data(), DType::bf16, {kBatches, kRows, kHidden});
  const TensorView small_view =
      view_of(small.data(), DType::bf16, {kBatches, kRows, kHidden}).with_row_counts(kCounts);
  const auto normed = call_into_rows(small_view, kHidden, DType::bf16, [&](const TensorView& v) {
    return rms_norm(small_view, norm, v);
  });
  for (int64_t b = 0; b < kBatches; ++b) {
    for (int64_t i = 0; i < kRows * kHidden; ++i) {
      const auto at = static_cast<size_t>((b * kRows * kHidden + i) * 2);
      const bool exists = i < kValid[b] * kHidden;
      if (!exists) {
        ASSERT_EQ(y[at], kPoison);
        ASSERT_EQ(normed[at], kPoison);
        ASSERT_EQ(residual[at], before[at]);
      }
    }
    if (kValid[b] > 0) {
      const auto from = static_cast<int64_t>(b * kRows * kHidden * 2);
      EXPECT_FALSE(std::equal(before.begin() + from, before.begin() + from + 2 * kHidden,
                              residual.begin() + from));
    }
  }
}

}  // namespace
}  // namespace rowscale::test
