// Patterns hold what they say, in shares that are counted here.
#include "bench_data.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace rowscale::cli {
namespace {

constexpr int64_t kCount = 1 << 18;

struct Shares {
  double zeros = 0;
  double negatives = 0;
  double infinities = 0;
  double subnormals = 0;
};

// A bf16 is the upper half of a float.
Shares shares(Pattern pattern) {
  const Buffer buffer(kCount * 2);
  fill(buffer, DType::bf16, pattern);
  Shares out;
  for (int64_t i = 0; i < kCount; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, buffer.data() + 2 * i, sizeof bits);
    const int magnitude = bits & 0x7FFF;
    out.zeros += magnitude == 0 ? 1.0 / kCount : 0;
    out.negatives += bits >> 15 != 0 ? 1.0 / kCount : 0;
    out.infinities += magnitude == 0x7F80 ? 1.0 / kCount : 0;
    out.subnormals += magnitude != 0 && magnitude < 0x80 ? 1.0 / kCount : 0;
  }
  return out;
}

TEST(BenchData, ZerosInTheSharesThatTheNamesSay) {
  EXPECT_NEAR(shares(Pattern::normal).zeros, 0, 1e-4);
  EXPECT_NEAR(shares(Pattern::zeros_tenth).zeros, 0.001, 3e-4);
  EXPECT_NEAR(shares(Pattern::zeros_one).zeros, 0.01, 1e-3);
  EXPECT_NEAR(shares(Pattern::zeros_ten).zeros, 0.1, 5e-3);
  EXPECT_NEAR(shares(Pattern::zeros_fifty).zeros, 0.5, 5e-3);
}

TEST(BenchData, ReluHasNoNegativesAndHalfZeros) {
  EXPECT_EQ(shares(Pattern::relu).negatives, 0);
  EXPECT_NEAR(shares(Pattern::relu).zeros, 0.5, 0.01);
}

TEST(BenchData, InfinitiesAndSubnormals) {
  EXPECT_NEAR(shares(Pattern::infinities).infinities, 1.0 / 64, 2e-3);
  EXPECT_EQ(shares(Pattern::normal).infinities, 0);
  EXPECT_NEAR(shares(Pattern::subnormal).subnormals, 127.0 / 128, 2e-3);
}

TEST(BenchData, EveryKeyIsReadBack) {
  EXPECT_EQ(parse_pattern("zeros0.1"), Pattern::zeros_tenth);
  EXPECT_EQ(parse_pattern("infinities"), Pattern::infinities);
  EXPECT_NE(pattern_keys().find("zeros50"), std::string::npos);
}

}  // namespace
}  // namespace rowscale::cli
