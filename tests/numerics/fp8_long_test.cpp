// encode on every one of the 2^32 floats. For consecutive patterns the right code is constant
// between two decision points, so the oracle is a walk over the intervals of the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "numerics/fp8.hpp"
#include "tests/support/code_table.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::CodeTable;
using test::float_of;
using test::Mismatches;

// Patterns [begin, end) of magnitudes, both signs, that must all have this code.
template <class F>
void check_interval(uint64_t begin, uint64_t end, uint32_t code, Mismatches& found) {
  for (const uint32_t sign : {0U, 1U}) {
    const uint32_t want = code == 0x7FU ? code : code | (sign << 7);
    for (uint64_t p = begin; p < end; ++p) {
      const uint32_t pattern = static_cast<uint32_t>(p) | (sign << 31);
      found.check(pattern, encode<F>(float_of(pattern)), want);
    }
  }
}

template <class F>
Mismatches check_all_floats(const CodeTable& table) {
  return test::sweep(0, 1ULL << 31, [&table](uint64_t begin, uint64_t end, Mismatches& found) {
    for (uint32_t code = 0; code <= table.last_code(); ++code) {
      const auto first = std::max<uint64_t>(begin, table.first_pattern(code));
      const auto last = std::min<uint64_t>(end, table.end_pattern(code));
      if (first < last) check_interval<F>(first, last, code, found);
    }
    const auto first_nan = std::max<uint64_t>(begin, 0x7F800001U);
    if (first_nan < end) check_interval<F>(first_nan, end, 0x7F, found);
  });
}

TEST(Fp8Exhaustive, EncodeE4m3) {
  const Mismatches found = check_all_floats<E4m3>(test::e4m3_table());
  EXPECT_EQ(found.checked, 1ULL << 32);
  EXPECT_EQ(found.count, 0U) << found;
}

TEST(Fp8Exhaustive, EncodeE5m2) {
  const Mismatches found = check_all_floats<E5m2>(test::e5m2_table());
  EXPECT_EQ(found.checked, 1ULL << 32);
  EXPECT_EQ(found.count, 0U) << found;
}

}  // namespace
}  // namespace rowscale::numerics
