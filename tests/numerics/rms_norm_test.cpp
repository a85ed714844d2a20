// RMSNorm: the tree of the sum against its recursive definition in exact arithmetic.
#include "numerics/rms_norm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/code_table.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/exact_model.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::add_exactly;
using test::bits_of;
using test::div_exactly;
using test::float_of;
using test::Mismatches;
using test::mul_exactly;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Values whose magnitudes differ by up to 2^8, so that every change of the order shows.
std::vector<float> test_row(int hidden, uint32_t seed) {
  std::vector<float> row;
  uint32_t state = seed;
  for (int i = 0; i < hidden; ++i) {
    state = state * 1664525U + 1013904223U;
    const uint32_t exponent = 122U + ((state >> 8) & 7U);
    row.push_back(float_of((state & 0x80000000U) | (exponent << 23) | (state >> 9)));
  }
  return row;
}

// A walk over the tree with the library's steps, the way a kernel takes it.
float walked_sum(const std::vector<float>& row) {
  const int hidden = static_cast<int>(row.size());
  std::vector<float> lanes(kTreeLanes, 0.0F);
  for (int first = 0; first < hidden; first += kTreeChunk) {
    float chunk = 0.0F;
    for (int i = first; i < first + kTreeChunk; ++i) {
      chunk = add_square(chunk, i < hidden ? row[static_cast<size_t>(i)] : 0.0F);
    }
    float& lane = lanes[static_cast<size_t>((first / kTreeChunk) % kTreeLanes)];
    lane = add(lane, chunk);
  }
  return reduce_tree(lanes.data());
}

constexpr int kHiddens[] = {1, 7, 8, 9, 2047, 2048, 2049, 5000};

TEST(SumTree, Shape) {
  EXPECT_EQ(kTreeChunk, 8);
  EXPECT_EQ(kTreeLanes, 256);
}

TEST(SumTree, SumOfSquaresIsTheRecursiveDefinition) {
  for (const int hidden : kHiddens) {
    for (uint32_t seed = 1; seed <= 20; ++seed) {
      const std::vector<float> row = test_row(hidden, seed);
      EXPECT_EQ(bits_of(walked_sum(row)), bits_of(test::SquareSumModel(row).sum()))
          << "hidden " << hidden << ", seed " << seed;
    }
  }
}

// The rows can tell one order from another: sums in plain order differ from the tree's.
TEST(SumTree, ControlOtherOrdersHaveOtherBits) {
  int plain = 0;
  int reversed = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    std::vector<float> row = test_row(5000, seed);
    const uint32_t tree = bits_of(walked_sum(row));
    float sum = 0.0F;
    for (const float z : row) sum = test::fma_exactly(z, z, sum);
    plain += bits_of(sum) != tree ? 1 : 0;
    for (size_t first = 0; first < row.size(); first += 8) {
      std::reverse(row.begin() + static_cast<int64_t>(first),
                   row.begin() + static_cast<int64_t>(first) + 8);
    }
    reversed += bits_of(walked_sum(row)) != tree ? 1 : 0;
  }
  EXPECT_GE(plain, 50);
  EXPECT_GE(reversed, 10);
}

TEST(SumTree, AddSquareRoundsOnce) {
  // 1 + 2^-12 squared is 1 + 2^-11 + 2^-24: the last term decides the rounding only if the product
  // is not rounded by itself. -(1 + 2^-11) leaves it alone.
  EXPECT_EQ(add_square(-(1.0F + 0x1p-11F), 1.0F + 0x1p-12F), 0x1p-24F);
  Mismatches found;
  uint32_t state = 7;
  for (int i = 0; i < 200'000 / static_cast<int>(test::kSlower); ++i) {
    state = state * 1664525U + 1013904223U;
    const float z = float_of(0x30000000U + (state >> 3));
    const float chunk = float_of(0x38000000U + (state * 2654435761U >> 4));
    found.check(bits_of(z), bits_of(add_square(chunk, z)), bits_of(test::fma_exactly(z, z, chunk)),
                bits_of(chunk));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

// Fails where the compiler may fuse a product and a sum: with a target that has fma and without
// -ffp-contract=off. Volatile, so that nothing is computed while compiling.
TEST(Arithmetic, ProductAndSumAreNotFused) {
  volatile float factor = 1.0F + 0x1p-12F;
  volatile float summand = -(1.0F + 0x1p-11F);
  const float x = factor;
  const float c = summand;
  EXPECT_EQ(add(mul(x, x), c), 0.0F);
  EXPECT_EQ(sub(mul(x, x), -c), 0.0F);
}

// Powers of two that overlap in no bit, then lanes whose sum depends on which are added first.
TEST(SumTree, LanesAreAddedInHalves) {
  std::vector<float> lanes(256, 0.0F);
  // a[0] + a[128] happens before a[64] joins: 1 + 2^-24 ties to 1, twice. Were a[128] and a[64]
  // added first, 2^-23 would survive.
  lanes[0] = 1.0F;
  lanes[128] = 0x1p-24F;
  lanes[64] = 0x1p-24F;
  EXPECT_EQ(reduce_tree(lanes.data()), 1.0F);
  // a[64] + a[192] happens before either meets a[0].
  lanes.assign(256, 0.0F);
  lanes[0] = 1.0F;
  lanes[64] = 0x1p-24F;
  lanes[192] = 0x1p-24F;
  EXPECT_EQ(reduce_tree(lanes.data()), 1.0F + 0x1p-23F);
  // a[1] joins last, whatever is in it: neighbours are not added to each other.
  lanes.assign(256, 0.0F);
  lanes[0] = 1.0F;
  lanes[2] = 0x1p-24F;
  lanes[3] = 0x1p-24F;
  EXPECT_EQ(reduce_tree(lanes.data()), 1.0F);
  // Every lane counts once.
  for (size_t l = 0; l < 256; ++l) {
    lanes.assign(256, 0.0F);
    lanes[l] = 3.0F;
    EXPECT_EQ(reduce_tree(lanes.data()), 3.0F) << l;
  }
}

// Each element passes at most 8 + ceil(chunks / 256) + 8 roundings, and all terms are positive.
TEST(SumTree, ErrorAgainstADoubleSum) {
  for (const int hidden : kHiddens) {
    const int chunks = (hidden + 7) / 8;
    const double bound = (8 + (chunks + 255) / 256 + 8) * std::ldexp(1.0, -24);
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      const std::vector<float> row = test_row(hidden, seed);
      double sum = 0.0;
      for (const float z : row) sum += static_cast<double>(z) * static_cast<double>(z);
      EXPECT_NEAR(static_cast<double>(walked_sum(row)), sum, bound * sum) << hidden;
    }
  }
}

TEST(RmsFactor, IsFourRoundings) {
  Mismatches found;
  for (uint32_t p = 0; p <= 0x7F800000U; p += 4801 * test::kSlower) {
    for (const int64_t hidden : {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{16777217}}) {
      for (const float eps : {0.0F, 1e-6F, 1e-5F}) {
        const float mean = div_exactly(float_of(p), static_cast<float>(hidden));
        const float root = test::sqrt_exactly(add_exactly(mean, eps));
        found.check(p, bits_of(rms_factor(float_of(p), hidden, eps)),
                    bits_of(div_exactly(1.0F, root)), bits_of(eps));
      }
    }
  }
  EXPECT_GT(found.checked, 1'000'000U / test::kSlower);
  EXPECT_EQ(found.count, 0U) << found;
}

TEST(RmsFactor, HandWorked) {
  EXPECT_EQ(rms_factor(16.0F, 4, 0.0F), 0.5F);
  EXPECT_EQ(rms_factor(12.0F, 4, 1.0F), 0.5F);
  EXPECT_EQ(rms_factor(0.0F, 4, 0.0F), kInfinity);
  EXPECT_EQ(rms_factor(kInfinity, 4, 1e-6F), 0.0F);
  EXPECT_TRUE(std::isnan(rms_factor(float_of(0x7FC00000U), 4, 1e-6F)));
  // A zero row is scaled by 1 / sqrt(eps).
  EXPECT_EQ(rms_factor(0.0F, 4096, 0x1p-20F), 1024.0F);
}

template <class T>
void expect_normed_rounds_before_the_weight(const test::CodeTable& table) {
  Mismatches found;
  uint32_t state = 1;
  for (int i = 0; i < 200'000 / static_cast<int>(test::kSlower); ++i) {
    state = state * 1664525U + 1013904223U;
    const float z = float_of((state & 0x80000000U) | (0x3C000000U + (state >> 6)));
    const float factor = float_of(0x3F000000U + (state * 2654435761U >> 8));
    const float weight = float_of(0x3F800000U + ((state >> 3) & 0x7F0000U));
    const float scaled = mul_exactly(z, factor);
    const uint32_t code = table.nearest(std::fabs(static_cast<double>(scaled)));
    const float stored =
        code == table.last_code() ? kInfinity : static_cast<float>(table.value(code));
    found.check(bits_of(z), bits_of(normed<T>(z, factor, weight)),
                bits_of(mul_exactly(std::copysign(stored, scaled), weight)), bits_of(factor));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

TEST(Normed, RoundsBeforeTheWeight) {
  expect_normed_rounds_before_the_weight<Bf16>(test::bf16_table());
  expect_normed_rounds_before_the_weight<Fp16>(test::fp16_table());
  // In fp32 nothing is lost but the two products.
  EXPECT_EQ(normed<float>(1.0F + 0x1p-20F, 1.0F, 1.0F), 1.0F + 0x1p-20F);
  EXPECT_EQ(normed<Bf16>(1.0F + 0x1p-20F, 1.0F, 1.0F), 1.0F);
}

TEST(Normed, GemmaAddsOneToTheWeightAndRoundsNothingBetween) {
  Mismatches found;
  uint32_t state = 3;
  for (int i = 0; i < 200'000 / static_cast<int>(test::kSlower); ++i) {
    state = state * 1664525U + 1013904223U;
    const float z = float_of((state & 0x80000000U) | (0x3C000000U + (state >> 6)));
    const float factor = float_of(0x3F000000U + (state * 2654435761U >> 8));
    const float weight = float_of(0x3C000000U + (state * 40503U >> 6));
    const float want = mul_exactly(mul_exactly(z, factor), add_exactly(1.0F, weight));
    found.check(bits_of(z), bits_of(normed_gemma(z, factor, weight)), bits_of(want),
                bits_of(weight));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

}  // namespace
}  // namespace rowscale::numerics
