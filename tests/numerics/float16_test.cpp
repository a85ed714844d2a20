// bf16 and fp16 to fp32 and back, against tables of their values made by definition.
#include "numerics/float16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

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

template <class T>
const CodeTable& table_of();
template <>
const CodeTable& table_of<Bf16>() {
  return test::bf16_table();
}
template <>
const CodeTable& table_of<Fp16>() {
  return test::fp16_table();
}

template <class T>
uint32_t expected_bits(float y) {
  if (std::isnan(y)) return 0x7FFF;
  const uint32_t sign = std::signbit(y) ? 0x8000U : 0U;
  return sign | table_of<T>().nearest(std::fabs(static_cast<double>(y)));
}

template <class T>
class Float16 : public testing::Test {};
using Types = testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(Float16, Types);

TYPED_TEST(Float16, ToF32IsTheValueOfEachOfThe65536Patterns) {
  const CodeTable& table = table_of<TypeParam>();
  Mismatches found;
  for (uint32_t pattern = 0; pattern < 0x10000U; ++pattern) {
    const uint32_t magnitude = pattern & 0x7FFFU;
    const float got = to_f32(TypeParam{static_cast<uint16_t>(pattern)});
    if (magnitude > table.last_code()) {
      EXPECT_TRUE(std::isnan(got)) << pattern;
      continue;
    }
    float want = magnitude == table.last_code() ? float_of(0x7F800000U)
                                                : static_cast<float>(table.value(magnitude));
    if (pattern >= 0x8000U) want = -want;
    found.check(pattern, bits_of(got), bits_of(want));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

TYPED_TEST(Float16, RoundToAtEveryDecisionPoint) {
  const CodeTable& table = table_of<TypeParam>();
  Mismatches found;
  for (uint32_t code = 0; code < table.last_code(); ++code) {
    for (const double centre : {table.value(code), table.midpoint(code)}) {
      for (int steps = -2; steps <= 2; ++steps) {
        const float y = step_away(static_cast<float>(centre), steps);
        found.check(bits_of(y), round_to<TypeParam>(y).bits, expected_bits<TypeParam>(y));
        found.check(bits_of(-y), round_to<TypeParam>(-y).bits, expected_bits<TypeParam>(-y));
      }
    }
  }
  EXPECT_GT(found.checked, 600000U);
  EXPECT_EQ(found.count, 0U) << found;
}

TYPED_TEST(Float16, RoundToOverAStrideOfAllFloats) {
  Mismatches found;
  for (uint64_t pattern = 0; pattern < (1ULL << 32); pattern += 887ULL * test::kSlower) {
    const float y = float_of(static_cast<uint32_t>(pattern));
    found.check(static_cast<uint32_t>(pattern), round_to<TypeParam>(y).bits,
                expected_bits<TypeParam>(y));
  }
  EXPECT_EQ(found.count, 0U) << found;
}

TYPED_TEST(Float16, EveryValueSurvivesTheWayThroughF32) {
  for (uint32_t pattern = 0; pattern < 0x10000U; ++pattern) {
    const bool is_a_nan = (pattern & 0x7FFFU) > table_of<TypeParam>().last_code();
    const TypeParam x{static_cast<uint16_t>(pattern)};
    ASSERT_EQ(round_to<TypeParam>(to_f32(x)).bits, is_a_nan ? 0x7FFFU : pattern);
  }
}

TYPED_TEST(Float16, NanIsCanonical) {
  for (const uint32_t nan : {0x7F800001U, 0x7FBFFFFFU, 0x7FC00000U, 0x7FFFFFFFU, 0xFF800001U,
                             0xFFC00000U, 0xFFFFFFFFU}) {
    EXPECT_EQ(round_to<TypeParam>(float_of(nan)).bits, 0x7FFF);
  }
}

TYPED_TEST(Float16, RoundThroughIsThereAndBack) {
  for (const float x : {1.0F, 1.00390625F, -3.14159265F, 1e-30F, 70000.0F}) {
    const auto code = expected_bits<TypeParam>(x) & 0x7FFFU;
    const auto value = code == table_of<TypeParam>().last_code()
                           ? float_of(0x7F800000U)
                           : static_cast<float>(table_of<TypeParam>().value(code));
    EXPECT_EQ(bits_of(round_through<TypeParam>(x)), bits_of(std::copysign(value, x)));
  }
}

TEST(Float32, RoundToItselfOnlyMakesNanCanonical) {
  EXPECT_EQ(bits_of(round_to<float>(float_of(0xFF800001U))), 0x7FFFFFFFU);
  EXPECT_EQ(bits_of(round_to<float>(float_of(0x7FC00000U))), 0x7FFFFFFFU);
  for (const uint32_t p :
       {0U, 0x80000000U, 1U, 0x3F800001U, 0x7F7FFFFFU, 0x7F800000U, 0xFF800000U}) {
    EXPECT_EQ(bits_of(round_to<float>(float_of(p))), p);
    EXPECT_EQ(bits_of(to_f32(float_of(p))), p);
  }
}

// Worked by hand from the definitions.
TEST(Float16Anchors, Values) {
  EXPECT_EQ(round_to<Bf16>(1.0F).bits, 0x3F80);
  EXPECT_EQ(round_to<Bf16>(1.00390625F).bits, 0x3F80);  // 1 + 2^-8: tie, to even
  EXPECT_EQ(round_to<Bf16>(1.01171875F).bits, 0x3F82);  // 1 + 3 * 2^-8: tie, to even
  EXPECT_EQ(round_to<Bf16>(0x1.fffffep127F).bits, 0x7F80);
  EXPECT_EQ(round_to<Bf16>(0x1p-133F).bits, 0x0001);
  EXPECT_EQ(round_to<Fp16>(1.0F).bits, 0x3C00);
  EXPECT_EQ(round_to<Fp16>(65504.0F).bits, 0x7BFF);
  EXPECT_EQ(round_to<Fp16>(step_away(65520.0F, -1)).bits, 0x7BFF);
  EXPECT_EQ(round_to<Fp16>(65520.0F).bits, 0x7C00);
  EXPECT_EQ(round_to<Fp16>(-0x1p-24F).bits, 0x8001);
  EXPECT_EQ(round_to<Fp16>(0x1p-25F).bits, 0x0000);      // tie, to even
  EXPECT_EQ(round_to<Fp16>(0x1.ffcp-15F).bits, 0x0400);  // subnormal carries to normal
  EXPECT_EQ(bits_of(to_f32(Fp16{0x0001})), bits_of(0x1p-24F));
  EXPECT_EQ(bits_of(to_f32(Bf16{0x0001})), bits_of(0x1p-133F));
}

}  // namespace
}  // namespace rowscale::numerics
