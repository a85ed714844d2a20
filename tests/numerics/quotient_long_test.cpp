// The proofs of the shortcuts for x / s in full; quotient_test.cpp tells why they suffice.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "numerics/scale_rule.hpp"
#include "tests/numerics/quotient_checks.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::Mismatches;

template <class Shortcut>
void expect_all_significands_hold(int scale_exponent, int point_exponent) {
  const Mismatches found = check_decision_points<Shortcut>(
      {.scale_exponent = scale_exponent, .point_exponent = point_exponent, .stride = 1});
  EXPECT_EQ(found.count, 0U) << scale_exponent << ' ' << point_exponent << ": " << found;
}

template <class Shortcut>
class FastQuotientProof : public testing::Test {};
using Shortcuts = testing::Types<Corrected, LongReciprocal>;
TYPED_TEST_SUITE(FastQuotientProof, Shortcuts);

TYPED_TEST(FastQuotientProof, AllSignificands) {
  expect_all_significands_hold<TypeParam>(0, -10);
}

// The exact residue of the corrected quotient is a multiple of ulp(q) * ulp(s). For scales below
// 2^-85 and a quotient near 2^-17, the lowest midpoint of e5m2, that is below 2^-149 and the
// residue is rounded. So the lowest binades that the library calls valid are the ones to prove.
TYPED_TEST(FastQuotientProof, LowestValidScales) {
  int lowest = -126;
  while (!fast_quotient_is_valid(std::ldexp(1.0F, lowest))) ++lowest;
  expect_all_significands_hold<TypeParam>(lowest, -17);
  expect_all_significands_hold<TypeParam>(lowest, -10);
}

// And the highest, whose reciprocals are the smallest.
TYPED_TEST(FastQuotientProof, HighestValidScales) {
  int highest = 127;
  while (!fast_quotient_is_valid(std::ldexp(1.0F, highest))) --highest;
  expect_all_significands_hold<TypeParam>(highest - 1, -17);
}

class FastQuotientPairs : public testing::TestWithParam<PairSweep> {};

template <class Shortcut>
void expect_all_pairs_hold(const PairSweep& pairs) {
  const uint64_t finite = pairs.fp16 ? 0x7C00U : 0x7F80U;
  const Mismatches e4m3 = check_pairs<Shortcut, E4m3>(pairs);
  EXPECT_EQ(e4m3.checked, finite * (finite + 1) / 2);
  EXPECT_EQ(e4m3.count, 0U) << e4m3;
  const Mismatches e5m2 = check_pairs<Shortcut, E5m2>(pairs);
  EXPECT_EQ(e5m2.count, 0U) << e5m2;
}

TEST_P(FastQuotientPairs, CorrectedHasTheCodesOfTheIeeeQuotient) {
  expect_all_pairs_hold<Corrected>(GetParam());
}

TEST_P(FastQuotientPairs, LongReciprocalHasTheCodesOfTheIeeeQuotient) {
  expect_all_pairs_hold<LongReciprocal>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Pairs, FastQuotientPairs,
                         testing::Values(PairSweep{false, FloorKind::amax, 1, 1},
                                         PairSweep{false, FloorKind::scale, 1, 1},
                                         PairSweep{true, FloorKind::amax, 1, 1},
                                         PairSweep{true, FloorKind::scale, 1, 1}),
                         [](const testing::TestParamInfo<PairSweep>& pairs) {
                           const std::string dtype = pairs.param.fp16 ? "Fp16" : "Bf16";
                           const bool amax = pairs.param.floor == FloorKind::amax;
                           return dtype + (amax ? "AmaxFloor" : "ScaleFloor");
                         });

// Every amax, against the machine's own division.
template <class F>
Mismatches check_every_amax() {
  return test::sweep(0, 0x7F800001U, [](uint64_t begin, uint64_t end, Mismatches& m) {
    for (uint64_t p = begin; p < end; ++p) {
      const float amax = test::float_of(static_cast<uint32_t>(p));
      const float got = fast_divide_by_max<F>(amax);
      if (amax >= kFastMaxQuotientLowest || amax == 0.0F) {
        m.check(static_cast<uint32_t>(p), test::bits_of(got), test::bits_of(amax / F::kMax));
      } else {
        m.check(static_cast<uint32_t>(p), got >= 0.0F && got <= 0x1p-108F ? 1U : 0U, 1U);
      }
    }
  });
}

TEST(FastDivideByMax, EveryAmax) {
  const Mismatches e4m3 = check_every_amax<E4m3>();
  EXPECT_EQ(e4m3.checked, 0x7F800001U);
  EXPECT_EQ(e4m3.count, 0U) << e4m3;
  const Mismatches e5m2 = check_every_amax<E5m2>();
  EXPECT_EQ(e5m2.count, 0U) << e5m2;
}

}  // namespace
}  // namespace rowscale::numerics
