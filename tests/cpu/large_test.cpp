// Addresses, row numbers and element numbers beyond 2^31 and 2^32 (B27): large in address space,
// small in memory, because only the pages that are touched exist.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/sparse_memory.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

// Megabytes of this process that are in memory now; 0 where the system does not say.
int64_t resident_mb() {
  int64_t total = 0;
  int64_t resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
    if (std::fscanf(file, "%ld %ld", &total, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * 4096 / (1024 * 1024);
}

void expect_small_in_memory() {
  EXPECT_LT(resident_mb(), 1500);
}

// A row that no other row equals.
std::vector<std::byte> row_of(int64_t row, DType dtype, int64_t hidden) {
  return make_data(Data::normal, dtype, hidden, 1000 + static_cast<uint64_t>(row));
}

// Row stride 2^20 elements, 2049 rows, width 128: every number is small but the address.
TEST(Large, RowStride) {
  constexpr int64_t kRows = 2049;
  constexpr int64_t kWidth = 128;
  constexpr int64_t kStride = int64_t{1} << 20;
  const SparseMemory x(kRows * kStride * 2);
  const SparseMemory codes(kRows * kStride);
  SKIP_WITHOUT(x);
  SKIP_WITHOUT(codes);
  for (int64_t r : {int64_t{0}, int64_t{1}, kRows - 2, kRows - 1}) {
    const auto row = row_of(r, DType::bf16, kWidth);
    std::copy(row.begin(), row.end(), x.data() + r * kStride * 2);
  }
  const TensorView x_view =
      TensorView::strided(x.data(), DType::bf16, {kRows, kWidth}, {kStride, 1});
  const TensorView codes_view =
      TensorView::strided(codes.data(), DType::e4m3, {kRows, kWidth}, {kStride, 1});
  const TensorView last =
      TensorView::contiguous(x.data() + (kRows - 1) * kStride * 2, DType::bf16, {1, kWidth});
  for (const Recipe& recipe : {per_token(), per_group(32), per_block(1, 64)}) {
    for (int threads : {1, 2}) {
      const Outputs alone = run_quantize(last, recipe);
      const ScaleSpec spec = spec_of(codes_view, recipe);
      GuardedBuffer scales(scale_bytes(spec));
      const Status status =
          quantize(x_view, recipe, codes_view, spec.view(scales.data()), on(Target::best, threads));
      ASSERT_TRUE(status.ok()) << status.message();
      const std::byte* at = codes.data() + (kRows - 1) * kStride;
      EXPECT_TRUE(same_bytes({at, at + kWidth}, alone.codes)) << to_string(recipe);
      const std::vector<std::byte> all = scales.content();
      EXPECT_TRUE(same_bytes({all.end() - static_cast<int64_t>(alone.scales.size()), all.end()},
                             alone.scales));
      EXPECT_TRUE(scales.guards_are_unchanged());
    }
  }
  expect_small_in_memory();
}

// The same with strides against the direction of memory.
TEST(Large, NegativeRowStride) {
  constexpr int64_t kRows = 1030;
  constexpr int64_t kStride = int64_t{1} << 21;
  const SparseMemory x(kRows * kStride * 2);
  SKIP_WITHOUT(x);
  const auto row = row_of(7, DType::f16, 64);
  std::copy(row.begin(), row.end(), x.data());  // the last row of the view
  const TensorView view = TensorView::strided(x.data() + (kRows - 1) * kStride * 2, DType::f16,
                                              {kRows, 64}, {-kStride, 1});
  const Outputs all = run_quantize(view, per_token());
  const Outputs alone = run_quantize(view_of(row.data(), DType::f16, {1, 64}), per_token());
  EXPECT_TRUE(same_bytes({all.codes.end() - 64, all.codes.end()}, alone.codes));
  EXPECT_TRUE(same_bytes({all.scales.end() - 4, all.scales.end()}, alone.scales));
}

// 2^32 elements and more, of which masks leave three rows: element numbers do not fit in 32 bits,
// neither do offsets of codes and of scales.
class Masked {
 public:
  static constexpr int64_t kBatches = 2051;
  static constexpr int64_t kRows = 2048;
  static constexpr int64_t kHidden = 1024;
  static constexpr int64_t kLast = kBatches - 1;

  Masked()
      : x(kBatches * kRows * kHidden * 2), codes(kBatches * kRows * kHidden), counts(kBatches) {
    counts[0] = 1;
    counts[kLast] = 2;
  }
  std::byte* row(int64_t batch, int64_t r) const {
    return x.data() + (batch * kRows + r) * kHidden * 2;
  }
  TensorView x_view() const {
    return TensorView::contiguous(x.data(), DType::bf16, {kBatches, kRows, kHidden})
        .with_row_counts(counts.data());
  }
  TensorView codes_view() const {
    return TensorView::contiguous(codes.data(), DType::e4m3, {kBatches, kRows, kHidden})
        .with_row_counts(counts.data());
  }

  SparseMemory x;
  SparseMemory codes;
  std::vector<int32_t> counts;
};

TEST(Large, ElementNumbers) {
  const Masked m;
  SKIP_WITHOUT(m.x);
  SKIP_WITHOUT(m.codes);
  ASSERT_GT(Masked::kLast * Masked::kRows * Masked::kHidden, int64_t{1} << 32);
  const auto row = row_of(1, DType::bf16, Masked::kHidden);
  std::copy(row.begin(), row.end(), m.row(Masked::kLast, 1));
  for (const Recipe& recipe :
       {per_token(), per_group(1),
        with(per_group(2), ScaleEncoding::f32, ScaleLayout::column_major),
        with(per_group(1), ScaleEncoding::ue8m0_packed), per_block(1, 1), per_tensor()}) {
    const ScaleSpec spec = spec_of(m.codes_view(), recipe);
    const SparseMemory scales(scale_bytes(spec));
    SKIP_WITHOUT(scales);
    const Status status = quantize(m.x_view(), recipe, m.codes_view(), spec.view(scales.data()));
    ASSERT_TRUE(status.ok()) << status.message();

    // The two rows of the last batch alone, in the same layout of a batch.
    const TensorView alone = TensorView::contiguous(m.row(Masked::kLast, 0), DType::bf16,
                                                    {1, Masked::kRows, Masked::kHidden})
                                 .with_row_counts(&m.counts[Masked::kLast]);
    const Outputs expected = run_quantize(alone, recipe);
    const std::byte* at = m.codes.data() + (Masked::kLast * Masked::kRows + 1) * Masked::kHidden;
    EXPECT_TRUE(same_bytes(
        {at, at + Masked::kHidden},
        {expected.codes.begin() + Masked::kHidden, expected.codes.begin() + 2 * Masked::kHidden}))
        << to_string(recipe);

    // Its scales, read back by dequantize, give the row again; so does the way through relayout.
    const ScaleSpec alone_spec = spec_of(alone, recipe);
    const int64_t last_matrix = recipe.granularity == Granularity::per_tensor
                                    ? 0
                                    : Masked::kLast * spec.strides[0] * element_size(spec.dtype);
    const std::byte* got = scales.data() + last_matrix;
    for (int64_t g = 0; g < alone_spec.shape[alone_spec.rank - 1]; ++g) {
      const int64_t size = element_size(spec.dtype);
      const int64_t row_stride = spec.rank > 1 ? spec.strides[spec.rank - 2] : 0;
      const int64_t offset = (row_stride + g * spec.strides[spec.rank - 1]) * size;
      ASSERT_TRUE(std::equal(got + offset, got + offset + size, expected.scales.data() + offset))
          << "group " << g << ": " << to_string(recipe);
    }
  }
  expect_small_in_memory();
}

TEST(Large, DequantizeAndRequantize) {
  const Masked m;
  SKIP_WITHOUT(m.x);
  SKIP_WITHOUT(m.codes);
  std::byte* at = m.codes.data() + (Masked::kLast * Masked::kRows + 1) * Masked::kHidden;
  for (int64_t i = 0; i < Masked::kHidden; ++i) at[i] = static_cast<std::byte>(i % 120);
  const Recipe in = per_group(1);
  const ScaleSpec spec = spec_of(m.codes_view(), in);
  const SparseMemory scales(scale_bytes(spec));
  SKIP_WITHOUT(scales);
  auto* s = reinterpret_cast<float*>(scales.data()) +
            (Masked::kLast * Masked::kRows + 1) * Masked::kHidden;
  for (int64_t i = 0; i < Masked::kHidden; ++i) s[i] = 1.0F + static_cast<float>(i % 7);

  // 0x38 is 1.0: there the output is the scale.
  ASSERT_TRUE(dequantize(m.codes_view(), spec.view(scales.data()), in, m.x_view()).ok());
  const std::byte* y = m.row(Masked::kLast, 1);
  EXPECT_EQ(load_value(DType::bf16, y + 0x38 * 2), s[0x38]);
  EXPECT_EQ(load_value(DType::bf16, y + (0x38 + 120) * 2), s[0x38 + 120]);

  const Recipe out = per_token();
  const ScaleSpec out_spec = spec_of(m.codes_view(), out);
  const SparseMemory out_scales(scale_bytes(out_spec));
  SKIP_WITHOUT(out_scales);
  ASSERT_TRUE(requantize(m.codes_view(), spec.view(scales.data()), in, m.codes_view(),
                         out_spec.view(out_scales.data()), out)
                  .ok());
  // Code 119 = 0x77 is 1.875 * 2^7 = 240; among its places are those with a scale of 7.
  const float got =
      reinterpret_cast<const float*>(out_scales.data())[Masked::kLast * Masked::kRows + 1];
  EXPECT_EQ(got, 240.0F * 7.0F / 448.0F);
  expect_small_in_memory();
}

TEST(Large, Producers) {
  const Masked m;
  SKIP_WITHOUT(m.x);
  SKIP_WITHOUT(m.codes);
  const auto row = row_of(3, DType::bf16, Masked::kHidden);
  std::copy(row.begin(), row.end(), m.row(Masked::kLast, 1));
  constexpr int64_t kHalf = Masked::kHidden / 2;
  const SparseMemory y(Masked::kBatches * Masked::kRows * kHalf * 2);
  SKIP_WITHOUT(y);
  ASSERT_TRUE(silu_mul(m.x_view(), TensorView::contiguous(y.data(), DType::bf16,
                                                          {Masked::kBatches, Masked::kRows, kHalf}))
                  .ok());
  const TensorView alone = view_of(row.data(), DType::bf16, {1, Masked::kHidden});
  const auto expected = call_into_rows(alone, kHalf, DType::bf16,
                                       [&](const TensorView& v) { return silu_mul(alone, v); });
  const std::byte* at = y.data() + (Masked::kLast * Masked::kRows + 1) * kHalf * 2;
  EXPECT_TRUE(same_bytes({at, at + kHalf * 2}, expected));
}

}  // namespace
}  // namespace rowscale::test
