// UE8M0 against exact arithmetic: frexp splits a float without rounding.
#include "numerics/ue8m0.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "tests/support/exact.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::bits_of;
using test::float_of;
using test::Mismatches;
using test::step_away;

constexpr uint32_t kInfinityPattern = 0x7F800000U;

// The smallest power of two not below max(s, fl(1e-10)), as its exponent plus 127.
uint32_t expected_byte(float s) {
  const double at_least = std::fmax(static_cast<double>(s), static_cast<double>(1e-10F));
  if (std::isinf(at_least)) return 255;
  int exponent = 0;
  const double fraction = std::frexp(at_least, &exponent);  // [0.5, 1)
  return static_cast<uint32_t>(exponent - (fraction == 0.5 ? 1 : 0) + 127);
}

TEST(Ue8m0RoundUp, EveryExponentAtItsEnds) {
  Mismatches found;
  for (uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (const uint32_t mantissa : {0U, 1U, 2U, 0x3FFFFFU, 0x400000U, 0x7FFFFEU, 0x7FFFFFU}) {
      const uint32_t p = (exponent << 23) | mantissa;
      found.check(p, ue8m0_round_up(float_of(p)), expected_byte(float_of(p)));
    }
  }
  EXPECT_EQ(found.count, 0U) << found;
}

TEST(Ue8m0RoundUp, StrideOverAllNonNegativeFloats) {
  Mismatches found;
  for (uint64_t p = 0; p <= kInfinityPattern; p += 257ULL * test::kSlower) {
    const auto pattern = static_cast<uint32_t>(p);
    found.check(pattern, ue8m0_round_up(float_of(pattern)), expected_byte(float_of(pattern)));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

TEST(Ue8m0RoundUp, FloorIs1em10) {
  EXPECT_EQ(kUe8m0FloorBits, 0x2EDBE6FFU);
  EXPECT_EQ(bits_of(1e-10F), 0x2EDBE6FFU);
  // 2^-34 < 1e-10 < 2^-33, so every smaller scale becomes 2^-33.
  for (const float s : {0.0F, -0.0F, 0x1p-149F, 0x1p-127F, 0x1p-34F, 1e-10F, 0x1p-33F, -1.0F}) {
    EXPECT_EQ(ue8m0_round_up(s), 94) << s;
  }
  EXPECT_EQ(ue8m0_round_up(step_away(0x1p-33F, 1)), 95);
}

TEST(Ue8m0RoundUp, HandWorked) {
  EXPECT_EQ(ue8m0_round_up(0.3F), 126);
  EXPECT_EQ(ue8m0_round_up(0.25F), 125);
  EXPECT_EQ(ue8m0_round_up(0.75F), 127);
  EXPECT_EQ(ue8m0_round_up(1.0F), 127);
  EXPECT_EQ(ue8m0_round_up(1.25F), 128);
  EXPECT_EQ(ue8m0_round_up(1.5F), 128);
  EXPECT_EQ(ue8m0_round_up(1.75F), 128);
  EXPECT_EQ(ue8m0_round_up(3.0F), 129);
  EXPECT_EQ(ue8m0_round_up(0x1p127F), 254);
  // Above 2^127 the next power of two has no byte of its own; 255 stands for infinity.
  EXPECT_EQ(ue8m0_round_up(step_away(0x1p127F, 1)), 255);
  EXPECT_EQ(ue8m0_round_up(float_of(kInfinityPattern)), 255);
}

// log2 in fp32 gives k for the float above 2^k, and the data would then pass MAX.
TEST(Ue8m0RoundUp, AmaxAroundPowersOfTwoTimesMax) {
  for (int k = -33; k <= 40; ++k) {
    const float amax = std::ldexp(448.0F, k);
    const auto byte = [](float a) { return static_cast<int>(ue8m0_round_up(a / 448.0F)); };
    EXPECT_EQ(byte(amax), 127 + k) << k;
    EXPECT_EQ(byte(step_away(amax, 1)), 128 + k) << k;
    EXPECT_EQ(byte(step_away(amax, -1)), 127 + k) << k;
  }
  EXPECT_EQ(bits_of(0x1.c00004p-12F / 448.0F), bits_of(step_away(0x1p-20F, 1)));
  EXPECT_EQ(ue8m0_round_up(0x1.c00004p-12F / 448.0F), 127 - 19);
}

// Rounded to bf16 first, this amax would be 448 and the scale 2^0.
TEST(Ue8m0RoundUp, AmaxKeepsItsLowBits) {
  EXPECT_EQ(ue8m0_round_up(448.109375F / 448.0F), 128);
}

TEST(Ue8m0Decode, All256Bytes) {
  for (int byte = 0; byte < 255; ++byte) {
    const auto want = static_cast<float>(std::ldexp(1.0, byte - 127));
    EXPECT_EQ(bits_of(ue8m0_decode(static_cast<uint8_t>(byte))), bits_of(want)) << byte;
    EXPECT_EQ(bits_of(ue8m0_quotient_operand(static_cast<uint8_t>(byte))), bits_of(want)) << byte;
  }
  EXPECT_EQ(bits_of(ue8m0_decode(255)), 0x7FFFFFFFU);
  EXPECT_EQ(bits_of(ue8m0_quotient_operand(255)), kInfinityPattern);
}

TEST(Ue8m0OfValue, EveryValueOfTheEncodingAndItsByte) {
  for (int byte = 0; byte < 255; ++byte) {
    const auto value = static_cast<float>(std::ldexp(1.0, byte - 127));
    EXPECT_TRUE(is_ue8m0_value(value)) << byte;
    EXPECT_EQ(ue8m0_of_value(value), byte);
    for (const float beside : {step_away(value, 1), step_away(value, -1), -value}) {
      if (std::isinf(beside)) continue;
      EXPECT_FALSE(is_ue8m0_value(beside)) << beside;
      EXPECT_EQ(ue8m0_of_value(beside), 255) << beside;
    }
  }
  for (const uint32_t special : {kInfinityPattern, 0x7FC00000U, 0x7FFFFFFFU, 0xFFC00000U}) {
    EXPECT_TRUE(is_ue8m0_value(float_of(special)));
    EXPECT_EQ(ue8m0_of_value(float_of(special)), 255);
  }
}

// Zero, negative values, minus infinity, and subnormal powers of two below 2^-127.
TEST(Ue8m0OfValue, WhatTheEncodingLacks) {
  for (const uint32_t p : {0U, 0x80000000U, 0x80400000U, 0xBF800000U, 0xFF800000U}) {
    EXPECT_FALSE(is_ue8m0_value(float_of(p))) << std::hex << p;
    EXPECT_EQ(ue8m0_of_value(float_of(p)), 255) << std::hex << p;
  }
  for (int exponent = -149; exponent < -127; ++exponent) {
    EXPECT_FALSE(is_ue8m0_value(std::ldexp(1.0F, exponent))) << exponent;
  }
}

TEST(Ue8m0OfValue, StrideOverAllFloats) {
  Mismatches found;
  for (uint64_t pattern = 0; pattern < (1ULL << 32); pattern += 1021ULL * test::kSlower) {
    const auto p = static_cast<uint32_t>(pattern);
    const float s = float_of(p);
    int exponent = 0;
    const bool power = s > 0.0F && !std::isinf(s) && std::frexp(s, &exponent) == 0.5F;
    const bool want = std::isnan(s) || (std::isinf(s) && s > 0) || (power && exponent - 1 >= -127);
    found.check(p, is_ue8m0_value(s) ? 1 : 0, want ? 1 : 0);
  }
  EXPECT_EQ(found.count, 0U) << found;
}

}  // namespace
}  // namespace rowscale::numerics
