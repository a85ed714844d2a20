// The error of exp over every float from 2^-26 to the clamps, both signs; below 2^-26 the result
// is 1. The true value is taken in double, whose own error is some 10^-9 of an fp32 ulp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "numerics/exp.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/exact_model.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::bits_of;
using test::float_of;
using test::Mismatches;

Mismatches check_errors(float from, float to, uint32_t sign) {
  const uint64_t end = static_cast<uint64_t>(bits_of(to)) + 1U;
  return test::sweep(bits_of(from), end, [sign](uint64_t begin, uint64_t stop, Mismatches& found) {
    for (uint64_t p = begin; p < stop; ++p) {
      const uint32_t pattern = static_cast<uint32_t>(p) | sign;
      const double truth = std::exp(static_cast<double>(float_of(pattern)));
      const float result = exp(float_of(pattern));
      bool good = false;
      if (std::isinf(result)) {
        good = truth > static_cast<double>(0x1.fffffcp127F);
      } else {
        const double bound = truth >= static_cast<double>(0x1p-126F) ? 0.895 : 0.845;
        good = test::error_in_ulp(result, truth) <= bound;
      }
      found.check(pattern, good ? 1 : 0, 1);
    }
  });
}

TEST(ExpExhaustive, ErrorOfPositiveArguments) {
  const Mismatches found = check_errors(0x1p-26F, 89.0F, 0);
  EXPECT_EQ(found.count, 0U) << found;
}

TEST(ExpExhaustive, ErrorOfNegativeArguments) {
  const Mismatches found = check_errors(0x1p-26F, 104.0F, 0x80000000U);
  EXPECT_EQ(found.count, 0U) << found;
}

TEST(ExpExhaustive, OneBelow) {
  const Mismatches found =
      test::sweep(0, bits_of(0x1p-26F), [](uint64_t begin, uint64_t stop, Mismatches& mine) {
        for (uint64_t p = begin; p < stop; ++p) {
          const auto pattern = static_cast<uint32_t>(p);
          mine.check(pattern, bits_of(exp(float_of(pattern))), 0x3F800000U);
          mine.check(pattern | 0x80000000U, bits_of(exp(-float_of(pattern))), 0x3F800000U);
        }
      });
  EXPECT_EQ(found.count, 0U) << found;
}

}  // namespace
}  // namespace rowscale::numerics
