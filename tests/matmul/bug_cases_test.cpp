// Public bug reports about products (docs/bug-cases.md): the smallest input of each and its right
// value, on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "rowscale/matmul.hpp"
#include "tests/support/matmul_cases.hpp"
#include "tests/support/matmul_sweep.hpp"

namespace rowscale::test {
namespace {

constexpr uint8_t kOne = 0x38;      // e4m3
constexpr uint8_t kHalf = 0x30;     // 0.5
constexpr uint8_t kFour = 0x48;     // 4
constexpr uint8_t kLargest = 0x7E;  // 448
constexpr uint8_t kNan = 0x7F;

testing::AssertionResult is_right(const MatmulCase& c) {
  const std::unique_ptr<MatmulMemory> memory = host_memory();
  return matmul_is_right(c, memory.get());
}

// D of e4m3 codes with f32 scales, in fp32.
struct Product {
  int64_t m, n, k;
  std::vector<uint8_t> a, b;
  std::vector<float> scale_a, scale_b;
  MatmulOptions options;

  Product(int64_t rows, int64_t columns, int64_t depth, uint8_t code)
      : m(rows),
        n(columns),
        k(depth),
        a(static_cast<size_t>(rows * depth), code),
        b(static_cast<size_t>(columns * depth), code),
        scale_a(static_cast<size_t>(rows), 1.0F),
        scale_b(static_cast<size_t>(columns), 1.0F) {}

  template <class T>
  std::vector<T> run(DType dtype) const {
    std::vector<T> out(static_cast<size_t>(m * n));
    const Status status = matmul(TensorView::contiguous(a.data(), DType::e4m3, {m, k}),
                                 TensorView::contiguous(b.data(), DType::e4m3, {n, k}),
                                 TensorView::contiguous(scale_a.data(), DType::f32, {m, 1}),
                                 TensorView::contiguous(scale_b.data(), DType::f32, {n, 1}), {},
                                 TensorView::contiguous(out.data(), dtype, {m, n}), options);
    EXPECT_TRUE(status.ok()) << status.message();
    return out;
  }
  std::vector<float> run() const { return run<float>(DType::f32); }
};

TEST(MatmulBugs, Shapes) {
  for (const MatmulCase& c : bug_matmul_cases()) ASSERT_TRUE(is_right(c));
}

// B64: D = 128 * sa * sb by quadrant.
TEST(MatmulBugB64, BandsOfScales) {
  for (const auto& [m, n] : std::vector<std::array<int64_t, 2>>{{256, 256}, {1024, 1024}}) {
    Product p(m, n, 128, kOne);
    for (int64_t i = 0; i < m; ++i) p.scale_a[static_cast<size_t>(i)] = i < m / 2 ? 1.0F : 2.0F;
    for (int64_t j = 0; j < n; ++j) p.scale_b[static_cast<size_t>(j)] = j < n / 2 ? 4.0F : 8.0F;
    const std::vector<float> out = p.run();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const float want = 512.0F * (i < m / 2 ? 1.0F : 2.0F) * (j < n / 2 ? 1.0F : 2.0F);
        ASSERT_EQ(out[static_cast<size_t>(i * n + j)], want) << i << ", " << j;
      }
    }
  }
}

// B65: the last tile of rows has its own scales.
TEST(MatmulBugB65, TailTile) {
  Product p(129, 264, 256, kOne);
  for (int i = 0; i < 129; ++i) p.scale_a[static_cast<size_t>(i)] = std::ldexp(1.0F, i % 8);
  const std::vector<float> out = p.run();
  for (int i = 0; i < 129; ++i) {
    for (int j = 0; j < 264; ++j) {
      ASSERT_EQ(out[static_cast<size_t>(i * 264 + j)], 256.0F * std::ldexp(1.0F, i % 8));
    }
  }
}

// B69: small terms beside a large one: 200704 + 16383 / 4.
TEST(MatmulBugB69, SmallTermsAreNotLost) {
  Product p(64, 64, 16384, kHalf);
  for (size_t i = 0; i < 64; ++i) p.a[i * 16384] = p.b[i * 16384] = kLargest;
  for (float value : p.run()) ASSERT_NEAR(value, 204799.75F, 1.0F);
  for (uint16_t bits : p.run<uint16_t>(DType::bf16)) ASSERT_EQ(bits, 0x4848);  // 204800
}

// B70: 4096 + 63 is 4160 in bf16, not 4096.
TEST(MatmulBugB70, PartialSumsAreNotRounded) {
  Product p(16, 256, 16384, 0);
  for (size_t row = 0; row < 16; ++row) {
    std::fill_n(p.a.begin() + static_cast<int64_t>(row * 16384), 256, kFour);
    for (size_t chunk = 1; chunk < 64; ++chunk) p.a[row * 16384 + chunk * 256] = kOne;
  }
  for (size_t row = 0; row < 256; ++row) {
    std::fill_n(p.b.begin() + static_cast<int64_t>(row * 16384), 256, kFour);
    for (size_t chunk = 1; chunk < 64; ++chunk) p.b[row * 16384 + chunk * 256] = kOne;
  }
  for (float value : p.run()) ASSERT_EQ(value, 4159.0F);
  for (uint16_t bits : p.run<uint16_t>(DType::bf16)) ASSERT_EQ(bits, 0x4582);  // 4160
}

// B71: (acc * scale_a) * scale_b. The scales are not judged: a fill value's result is infinite.
TEST(MatmulBugB71, OrderOfScales) {
  const auto product = [](float scale_a, float scale_b) {
    Product p(1, 1, 128, kLargest);
    p.scale_a[0] = scale_a;
    p.scale_b[0] = scale_b;
    return p.run()[0];
  };
  EXPECT_EQ(product(-3.4e38F, -3.4e38F), std::numeric_limits<float>::infinity());
  EXPECT_NEAR(product(1e-30F, 1e32F), 2.5690112e9F, 1e3F);
  EXPECT_EQ(product(1e-25F, 1e-25F), 25690112.0F * 1e-25F * 1e-25F);
  EXPECT_GE(product(1e-25F, 1e-25F), 0.0F);
}

// B72: f32 scales are used as they are: three quarters of a power of two stay that.
TEST(MatmulBugB72, ScalesAreNotRoundedToPowersOfTwo) {
  Product p(2, 3, 128, kOne);
  p.scale_a.assign(2, 1.5F);
  p.scale_b.assign(3, 0.75F);
  for (float value : p.run()) EXPECT_EQ(value, 144.0F);
}

// B78: the weights of expert 128 begin 2^31 bytes behind the first. Only the pages of that one
// expert are touched.
TEST(MatmulBugB78, ExpertsBeyond2To31) {
  constexpr int64_t kN = 4096;
  constexpr int64_t kK = 4096;
  constexpr int64_t kExperts = 129;
  const std::vector<uint8_t> a(kK, kOne);
  // calloc gives untouched zero pages.
  auto* b = static_cast<uint8_t*>(std::calloc(kExperts, kN * kK));
  if (b == nullptr) GTEST_SKIP() << "skipped: no 2 GB of address space";
  std::memset(b + (kExperts - 1) * kN * kK, kOne, kN * kK);
  std::vector<int32_t> offsets(kExperts + 1, 0);
  offsets.back() = 1;
  const float scale_a = 1.0F;
  const std::vector<float> scale_b(kExperts * kN, 1.0F);
  std::vector<float> out(kN);
  MatmulOptions options;
  const Status status =
      grouped_matmul(TensorView::contiguous(a.data(), DType::e4m3, {1, kK}),
                     TensorView::contiguous(b, DType::e4m3, {kExperts, kN, kK}),
                     TensorView::contiguous(&scale_a, DType::f32, {1, 1}),
                     TensorView::contiguous(scale_b.data(), DType::f32, {kExperts, kN, 1}),
                     TensorView::contiguous(offsets.data(), DType::i32, {kExperts + 1}),
                     TensorView::contiguous(out.data(), DType::f32, {1, kN}), options);
  std::free(b);
  ASSERT_TRUE(status.ok()) << status.message();
  for (float value : out) ASSERT_EQ(value, 4096.0F);
}

// B82: a NaN stays in its expert; an output with the experts inside is used by its strides.
TEST(MatmulBugB82, OutputsOfAnyStrides) {
  constexpr int64_t kExperts = 3, kRows = 4, kN = 16, kK = 32;
  std::vector<uint8_t> a(kExperts * kRows * kK, kOne);
  std::fill_n(a.begin() + kRows * kK, kRows * kK, kNan);  // expert 1
  const std::vector<uint8_t> b(kExperts * kN * kK, kOne);
  const std::vector<float> scale_a(kExperts * kRows, 1.0F);
  const std::vector<float> scale_b(kExperts * kN, 1.0F);
  const std::vector<int32_t> counts(kExperts, kRows);
  std::vector<float> out(kExperts * kRows * kN);
  const auto run = [&](std::initializer_list<int64_t> strides) {
    return grouped_matmul(
        TensorView::contiguous(a.data(), DType::e4m3, {kExperts, kRows, kK})
            .with_row_counts(counts.data()),
        TensorView::contiguous(b.data(), DType::e4m3, {kExperts, kN, kK}),
        TensorView::contiguous(scale_a.data(), DType::f32, {kExperts, kRows, 1}),
        TensorView::contiguous(scale_b.data(), DType::f32, {kExperts, kN, 1}), {},
        TensorView::strided(out.data(), DType::f32, {kExperts, kRows, kN}, strides));
  };
  // [rows, n, experts], the expert innermost.
  Status status = run({1, kN * kExperts, kExperts});
  EXPECT_EQ(status.message(),
            "out: expected a stride of 1 in the last dimension, got strides [1, 48, 3]");
  // [rows, experts, n].
  status = run({kN, kExperts * kN, 1});
  ASSERT_TRUE(status.ok()) << status.message();
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t e = 0; e < kExperts; ++e) {
      for (int64_t j = 0; j < kN; ++j) {
        const float value = out[static_cast<size_t>((row * kExperts + e) * kN + j)];
        if (e == 1) {
          ASSERT_TRUE(std::isnan(value));
        } else {
          ASSERT_EQ(value, 32.0F);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rowscale::test
