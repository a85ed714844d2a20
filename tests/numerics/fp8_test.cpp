// encode and decode against tables of the codes' values, made by definition.
#include "numerics/fp8.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "numerics/quotient.hpp"
#include "tests/support/code_table.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::bits_of;
using test::CodeTable;
using test::float_of;
using test::Mismatches;
using test::step_away;

template <class F>
struct Definition;
template <>
struct Definition<E4m3> {
  static const CodeTable& table() { return test::e4m3_table(); }
  static constexpr float kMax = 448.0F;
  static constexpr float kFirstRoundedAbove = 464.0F;  // where a wider format would round up
  static constexpr float kMinNormal = 0x1p-6F;
  static constexpr float kMinSubnormal = 0x1p-9F;
};
template <>
struct Definition<E5m2> {
  static const CodeTable& table() { return test::e5m2_table(); }
  static constexpr float kMax = 57344.0F;
  static constexpr float kFirstRoundedAbove = 61440.0F;
  static constexpr float kMinNormal = 0x1p-14F;
  static constexpr float kMinSubnormal = 0x1p-16F;
};

uint32_t expected_code(const CodeTable& table, uint32_t pattern) {
  const float y = float_of(pattern);
  if (std::isnan(y)) return 0x7F;
  const uint32_t sign = std::signbit(y) ? 0x80U : 0U;
  return sign | table.nearest(std::fabs(static_cast<double>(y)));
}

// The magnitudes where an encoder can go wrong, each with its neighbours up to 3 ulp away.
template <class F>
std::vector<uint32_t> critical_patterns() {
  using D = Definition<F>;
  const CodeTable& table = D::table();
  std::vector<float> centres = {0.0F,          D::kMax,          D::kFirstRoundedAbove,
                                D::kMinNormal, D::kMinSubnormal, D::kMinSubnormal / 2.0F,
                                0x1p-126F,     0x1.fffffep127F,  float_of(0x7F800000U)};
  for (uint32_t code = 0; code <= table.last_code(); ++code) {
    centres.push_back(static_cast<float>(table.value(code)));
    if (code < table.last_code()) centres.push_back(static_cast<float>(table.midpoint(code)));
  }
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    centres.push_back(float_of(exponent << 23));
    centres.push_back(float_of((exponent << 23) | 0x7FFFFFU));
  }
  std::vector<uint32_t> patterns;
  for (const float centre : centres) {
    for (int steps = -3; steps <= 3; ++steps) {
      patterns.push_back(bits_of(step_away(centre, steps)));
      patterns.push_back(bits_of(step_away(centre, steps)) | 0x80000000U);
    }
  }
  for (uint32_t payload = 1; payload < 0x800000U; payload = payload * 3 + 1) {
    patterns.push_back(0x7F800000U | payload);
    patterns.push_back(0xFF800000U | payload);
  }
  for (const uint32_t nan : {0x7F800001U, 0x7FBFFFFFU, 0x7FC00000U, 0x7FFFFFFFU, 0xFFC00000U,
                             0xFFFFFFFFU, 0xFF800001U}) {
    patterns.push_back(nan);
  }
  return patterns;
}

template <class F>
class Fp8 : public testing::Test {};
using Formats = testing::Types<E4m3, E5m2>;
TYPED_TEST_SUITE(Fp8, Formats);

TYPED_TEST(Fp8, EncodeAtEveryDecisionPoint) {
  const CodeTable& table = Definition<TypeParam>::table();
  const std::vector<uint32_t> patterns = critical_patterns<TypeParam>();
  ASSERT_GT(patterns.size(), 10000U);
  for (const uint32_t pattern : patterns) {
    ASSERT_EQ(encode<TypeParam>(float_of(pattern)), expected_code(table, pattern))
        << "pattern 0x" << std::hex << pattern;
  }
}

TYPED_TEST(Fp8, EncodeOverAStrideOfAllFloats) {
  const CodeTable& table = Definition<TypeParam>::table();
  constexpr uint64_t kStride = 601ULL * test::kSlower;
  Mismatches found;
  for (uint64_t pattern = 0; pattern < (1ULL << 32); pattern += kStride) {
    const auto p = static_cast<uint32_t>(pattern);
    found.check(p, encode<TypeParam>(float_of(p)), expected_code(table, p));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

// Most patterns of the stride above saturate or vanish; this one stays where the codes are dense.
TYPED_TEST(Fp8, EncodeOverAStrideOfTheRangeOfTheCodes) {
  const CodeTable& table = Definition<TypeParam>::table();
  const uint32_t first = bits_of(Definition<TypeParam>::kMinSubnormal / 4.0F);
  const uint32_t last = bits_of(Definition<TypeParam>::kMax * 2.0F);
  Mismatches found;
  for (uint32_t p = first; p < last; p += 53 * test::kSlower) {
    found.check(p, encode<TypeParam>(float_of(p)), expected_code(table, p));
    found.check(p | 0x80000000U, encode<TypeParam>(float_of(p | 0x80000000U)),
                expected_code(table, p | 0x80000000U));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

// The interval walk of the long test and the search among midpoints are two statements of the same
// rounding; they hold each other in check.
TYPED_TEST(Fp8, TableIntervalsAgreeWithTheSearch) {
  const CodeTable& table = Definition<TypeParam>::table();
  for (uint32_t code = 0; code <= table.last_code(); ++code) {
    const auto at = [&](uint32_t p) { return table.nearest(static_cast<double>(float_of(p))); };
    EXPECT_EQ(at(table.first_pattern(code)), code);
    EXPECT_EQ(at(table.end_pattern(code) - 1U), code);
  }
}

TYPED_TEST(Fp8, DecodeOfAllCodes) {
  const CodeTable& table = Definition<TypeParam>::table();
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t magnitude = code & 0x7FU;
    uint32_t want = 0x7FFFFFFFU;  // the canonical NaN, for either sign
    if (magnitude <= table.last_code()) {
      const auto value = static_cast<float>(table.value(magnitude));
      want = bits_of(code >= 128 ? -value : value);
    } else if (std::is_same_v<TypeParam, E5m2> && magnitude == 0x7C) {
      want = code >= 128 ? 0xFF800000U : 0x7F800000U;
    }
    EXPECT_EQ(bits_of(decode<TypeParam>(static_cast<uint8_t>(code))), want) << "code " << code;
  }
}

TYPED_TEST(Fp8, EncodeOfADecodedCodeIsThatCode) {
  for (uint32_t code = 0; code < 256; ++code) {
    if ((code & 0x7FU) > Definition<TypeParam>::table().last_code()) continue;
    EXPECT_EQ(encode<TypeParam>(decode<TypeParam>(static_cast<uint8_t>(code))), code);
  }
}

TYPED_TEST(Fp8, NanRuleTouchesNothingButNan) {
  const auto max_code = static_cast<uint8_t>(Definition<TypeParam>::table().last_code());
  const auto lowest_code = static_cast<uint8_t>(max_code | 0x80U);
  for (const uint32_t nan : {0x7F800001U, 0x7FC00000U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU}) {
    EXPECT_EQ(encode<TypeParam>(float_of(nan), NanRule::propagate), 0x7F);
    EXPECT_EQ(encode<TypeParam>(float_of(nan), NanRule::clamp_high), max_code);
    EXPECT_EQ(encode<TypeParam>(float_of(nan), NanRule::clamp_low), lowest_code);
  }
  for (const NanRule rule : {NanRule::propagate, NanRule::clamp_high, NanRule::clamp_low}) {
    EXPECT_EQ(encode<TypeParam>(float_of(0x7F800000U), rule), max_code);
    EXPECT_EQ(encode<TypeParam>(float_of(0xFF800000U), rule), lowest_code);
    EXPECT_EQ(encode<TypeParam>(-0.0F, rule), 0x80);
    EXPECT_EQ(encode<TypeParam>(1.0F, rule), encode<TypeParam>(1.0F));
  }
}

// Bytes worked out by hand from the formats' definitions; the tables above do not enter.
TEST(Fp8Anchors, E4m3) {
  EXPECT_EQ(encode<E4m3>(1.0F), 0x38);
  EXPECT_EQ(encode<E4m3>(-1.0F), 0xB8);
  EXPECT_EQ(encode<E4m3>(448.0F), 0x7E);
  EXPECT_EQ(encode<E4m3>(-1e30F), 0xFE);
  EXPECT_EQ(encode<E4m3>(0x1p-6F), 0x08);
  EXPECT_EQ(encode<E4m3>(0x1p-9F), 0x01);
  EXPECT_EQ(encode<E4m3>(0x1p-10F), 0x00);  // tie, to even
  EXPECT_EQ(encode<E4m3>(0x1p-10F * 1.001F), 0x01);
  EXPECT_EQ(encode<E4m3>(3 * 0x1p-10F), 0x02);
  EXPECT_EQ(encode<E4m3>(1.0625F), 0x38);  // tie, to even
  EXPECT_EQ(encode<E4m3>(1.1875F), 0x3A);
  EXPECT_EQ(bits_of(decode<E4m3>(0x7E)), bits_of(448.0F));
  EXPECT_EQ(bits_of(decode<E4m3>(0x80)), 0x80000000U);
}

TEST(Fp8Anchors, E5m2) {
  EXPECT_EQ(encode<E5m2>(1.0F), 0x3C);
  EXPECT_EQ(encode<E5m2>(57344.0F), 0x7B);
  EXPECT_EQ(encode<E5m2>(-1e30F), 0xFB);
  EXPECT_EQ(encode<E5m2>(0x1p-14F), 0x04);
  EXPECT_EQ(encode<E5m2>(0x1p-16F), 0x01);
  EXPECT_EQ(encode<E5m2>(0x1p-17F), 0x00);  // tie, to even
  EXPECT_EQ(encode<E5m2>(1.125F), 0x3C);    // tie, to even
  EXPECT_EQ(encode<E5m2>(1.375F), 0x3E);
  EXPECT_EQ(bits_of(decode<E5m2>(0x7C)), 0x7F800000U);
}

// Through fp16 these would land on a midpoint and then go down to the even code.
TEST(Fp8Anchors, NoSecondRounding) {
  EXPECT_EQ(encode<E4m3>(400.199585F), 0x7D);
  EXPECT_EQ(encode<E4m3>(272.156555F), 0x79);
  EXPECT_EQ(encode<E4m3>(136.002075F), 0x71);
  EXPECT_EQ(encode<E4m3>(1.0625001F), 0x39);
}

}  // namespace
}  // namespace rowscale::numerics
