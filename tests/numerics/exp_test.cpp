// exp: the golden lines, the steps of the document in exact arithmetic, and the true function.
#include "numerics/exp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "tests/support/exact.hpp"
#include "tests/support/exact_model.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::bits_of;
using test::float_of;
using test::Mismatches;

TEST(Exp, GoldenLines) {
  std::ifstream file(ROWSCALE_EXP_GOLDEN);
  ASSERT_TRUE(file.good()) << ROWSCALE_EXP_GOLDEN;
  int lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    uint32_t in = 0;
    uint32_t out = 0;
    fields >> std::hex >> in >> out;
    ASSERT_FALSE(fields.fail()) << line;
    EXPECT_EQ(bits_of(exp(float_of(in))), out) << line;
    ++lines;
  }
  EXPECT_GE(lines, 60);
}

TEST(Exp, IsTheDocumentedSteps) {
  Mismatches found;
  const auto check = [&found](uint32_t p) {
    const float x = float_of(p);
    if (std::isnan(x)) return;
    found.check(p, bits_of(exp(x)), bits_of(test::exp_model(x)));
  };
  for (uint64_t p = 0; p < (1ULL << 32); p += 6007ULL * test::kSlower) {
    check(static_cast<uint32_t>(p));
  }
  // Densely where the argument is neither clamped nor tiny.
  for (uint32_t p = bits_of(0x1p-12F); p < bits_of(105.0F); p += 401 * test::kSlower) {
    check(p);
    check(p | 0x80000000U);
  }
  EXPECT_GT(found.checked, 600'000U / test::kSlower);
  EXPECT_EQ(found.count, 0U) << found;
}

// error_in_ulp tells the unit. Over every float the largest errors are 0.8943 ulp, at the first of
// the inputs below, and 0.8432 units of 2^-149 where the result is subnormal: exp_long_test.cpp.
constexpr double kNormalBound = 0.895;
constexpr double kSubnormalBound = 0.845;
constexpr uint32_t kWorstInputs[] = {0x41D58276U, 0xC219D054U, 0xC2AF4EFEU};

TEST(Exp, ErrorAgainstTheTrueFunction) {
  double worst_normal = 0.0;
  double worst_subnormal = 0.0;
  const auto measure = [&](uint32_t p) {
    const float x = float_of(p);
    const long double truth = std::exp(static_cast<long double>(x));
    const float result = exp(x);
    if (std::isinf(result)) {
      // Right where even the largest float is too small, less the error that is allowed below it.
      EXPECT_GT(truth, static_cast<long double>(0x1.fffffcp127F)) << x;
    } else if (truth >= static_cast<long double>(0x1p-126F)) {
      worst_normal = std::max(worst_normal, test::error_in_ulp(result, truth));
    } else {
      worst_subnormal = std::max(worst_subnormal, test::error_in_ulp(result, truth));
    }
  };
  for (uint32_t p = 0; p <= bits_of(89.0F); p += 1201 * test::kSlower) measure(p);
  for (uint32_t p = 0; p <= bits_of(104.0F); p += 1201 * test::kSlower) measure(p | 0x80000000U);
  for (uint32_t p = bits_of(87.0F); p <= bits_of(104.0F); p += 7 * test::kSlower) {
    measure(p | 0x80000000U);
  }
  for (const uint32_t p : kWorstInputs) measure(p);
  EXPECT_LE(worst_normal, kNormalBound);
  EXPECT_GE(worst_normal, 0.894);  // the unit is what it claims to be
  EXPECT_LE(worst_subnormal, kSubnormalBound);
  EXPECT_GE(worst_subnormal, 0.843);
}

TEST(Exp, Clamps) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {-104.0F, -105.0F, -1e30F, -kInfinity}) EXPECT_EQ(bits_of(exp(x)), 0U) << x;
  for (const float x : {89.0F, 90.0F, 1e30F, kInfinity}) {
    EXPECT_EQ(bits_of(exp(x)), 0x7F800000U) << x;
  }
  for (const uint32_t nan : {0x7F800001U, 0x7FC00000U, 0xFFFFFFFFU}) {
    EXPECT_TRUE(std::isnan(exp(float_of(nan))));
  }
  EXPECT_EQ(bits_of(exp(0.0F)), bits_of(1.0F));
  EXPECT_EQ(bits_of(exp(-0.0F)), bits_of(1.0F));
}

}  // namespace
}  // namespace rowscale::numerics
