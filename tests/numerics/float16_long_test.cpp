// fp32 to bf16 and to fp16 on every one of the 2^32 floats, by a walk over the intervals that round
// to one value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "numerics/float16.hpp"
#include "tests/support/code_table.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::CodeTable;
using test::float_of;
using test::Mismatches;

template <class T>
Mismatches check_all_floats(const CodeTable& table) {
  return test::sweep(0, 1ULL << 31, [&table](uint64_t begin, uint64_t end, Mismatches& found) {
    const auto check = [&found](uint64_t first, uint64_t last, uint32_t code) {
      for (const uint32_t sign : {0U, 1U}) {
        const uint32_t want = code == 0x7FFFU ? code : code | (sign << 15);
        for (uint64_t p = first; p < last; ++p) {
          const uint32_t pattern = static_cast<uint32_t>(p) | (sign << 31);
          found.check(pattern, round_to<T>(float_of(pattern)).bits, want);
        }
      }
    };
    for (uint32_t code = 0; code <= table.last_code(); ++code) {
      const auto first = std::max<uint64_t>(begin, table.first_pattern(code));
      const auto last = std::min<uint64_t>(end, table.end_pattern(code));
      if (first < last) check(first, last, code);
    }
    const auto first_nan = std::max<uint64_t>(begin, 0x7F800001U);
    if (first_nan < end) check(first_nan, end, 0x7FFF);
  });
}

TEST(Float16Exhaustive, Bf16) {
  const Mismatches found = check_all_floats<Bf16>(test::bf16_table());
  EXPECT_EQ(found.checked, 1ULL << 32);
  EXPECT_EQ(found.count, 0U) << found;
}

TEST(Float16Exhaustive, Fp16) {
  const Mismatches found = check_all_floats<Fp16>(test::fp16_table());
  EXPECT_EQ(found.checked, 1ULL << 32);
  EXPECT_EQ(found.count, 0U) << found;
}

}  // namespace
}  // namespace rowscale::numerics
