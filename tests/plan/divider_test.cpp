// Division by a number that is known beforehand, against the processor's: around every multiple
// where a quotient changes, to the ends of the range.
#include "plan/divider.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/test_data.hpp"

namespace rowscale::plan {
namespace {

// Every small divisor, the neighbours of powers of two and of ten, and others of every size.
template <class Index>
std::vector<Index> divisors() {
  constexpr Index kMost = std::numeric_limits<Index>::max();
  std::vector<Index> list;
  for (Index d = 1; d <= 3000; ++d) list.push_back(d);
  for (Index power = 4096; power > 0 && power <= kMost / 2; power *= 2) {
    for (Index step : {-1, 0, 1}) list.push_back(power + step);
  }
  for (Index power = 10000; power <= kMost / 10; power *= 10) list.push_back(power);
  list.push_back(kMost - 1);
  list.push_back(kMost);
  test::Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const int bits = 1 + static_cast<int>(random.below(std::numeric_limits<Index>::digits));
    list.push_back(static_cast<Index>(1 + (random.next() >> (64 - bits))));
  }
  std::erase_if(list, [](Index d) { return d <= 0; });
  return list;
}

template <class Index>
void expect_the_processors_quotients() {
  constexpr Index kMost = std::numeric_limits<Index>::max();
  test::Random random(4);
  for (const Index d : divisors<Index>()) {
    const Divider divider(d);
    ASSERT_EQ(divider.divisor(), d);
    const auto check = [&](Index n) { ASSERT_EQ(divider.divide(n), n / d) << n << " / " << d; };
    for (Index n : {Index{0}, Index{1}, d, kMost, static_cast<Index>(kMost - 1)}) check(n);
    check(d - 1);
    const Index last = kMost / d;  // the largest quotient
    for (int i = 0; i < 60; ++i) {
      const Index q = i < 20 ? std::min<Index>(last, i)
                      : i < 40
                          ? std::max<Index>(last - (i - 20), 0)
                          : static_cast<Index>(random.next() % (static_cast<uint64_t>(last) + 1));
      check(q * d);
      if (q > 0) check(q * d - 1);
      if (q * d < kMost) check(q * d + 1);
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Divider, ThirtyTwoBits) {
  expect_the_processors_quotients<int32_t>();
}
TEST(Divider, SixtyFourBits) {
  expect_the_processors_quotients<int64_t>();
}

TEST(Divider, QuotientAndRemainder) {
  for (int64_t n : {int64_t{0}, int64_t{7}, int64_t{1} << 31, int64_t{1} << 40}) {
    for (int64_t d : {int64_t{1}, int64_t{3}, int64_t{1} << 32, (int64_t{1} << 33) + 5}) {
      const QuotientRemainder at = divide(n, d);
      EXPECT_EQ(at.quotient, n / d);
      EXPECT_EQ(at.remainder, n % d);
    }
  }
}

}  // namespace
}  // namespace rowscale::plan
