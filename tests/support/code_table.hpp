// A small floating-point format as the sorted list of its values, made by definition with ldexp.
// Rounding to it is a search among the midpoints between neighbours: no bit tricks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/support/exact.hpp"

namespace rowscale::test {

// The value of a code without its sign: e = 0 is m * 2^(1 - bias - M), else (2^M + m) * 2^(e - bias
// - M).
inline double value_by_definition(uint32_t code, int mantissa_bits, int bias) {
  const uint32_t e = code >> mantissa_bits;
  const uint32_t m = code & ((1U << mantissa_bits) - 1U);
  if (e == 0) return std::ldexp(m, 1 - bias - mantissa_bits);
  return std::ldexp((1U << mantissa_bits) + m, static_cast<int>(e) - bias - mantissa_bits);
}

class CodeTable {
 public:
  // Codes 0 .. last_code. In a format that has an infinity it is the last code: what is rounded to
  // the value that would follow the largest finite one.
  CodeTable(int mantissa_bits, int bias, uint32_t last_code) {
    for (uint32_t code = 0; code <= last_code; ++code) {
      values_.push_back(value_by_definition(code, mantissa_bits, bias));
    }
    for (uint32_t code = 0; code < last_code; ++code) {
      midpoints_.push_back((values_[code] + values_[code + 1]) / 2.0);  // exact in double
    }
    first_patterns_.push_back(0);
    for (uint32_t code = 0; code < last_code; ++code) {
      const auto middle = static_cast<float>(midpoints_[code]);
      if (static_cast<double>(middle) != midpoints_[code]) throw std::logic_error("not a float");
      // A tie goes to the even one of the two codes.
      const bool tie_stays_below = code % 2 == 0;
      first_patterns_.push_back(bits_of(middle) + (tie_stays_below ? 1U : 0U));
    }
  }

  uint32_t last_code() const { return static_cast<uint32_t>(values_.size()) - 1U; }
  double value(uint32_t code) const { return values_[code]; }
  // Between `code` and the next one.
  double midpoint(uint32_t code) const { return midpoints_[code]; }

  // Nearest even; beyond the last value the last code. magnitude >= 0.
  uint32_t nearest(double magnitude) const {
    const auto found = std::lower_bound(midpoints_.begin(), midpoints_.end(), magnitude);
    const auto below = static_cast<uint32_t>(found - midpoints_.begin());  // midpoints < magnitude
    const bool tie = found != midpoints_.end() && *found == magnitude;
    return tie && below % 2 != 0 ? below + 1 : below;
  }

  // The floats that round to `code` are those with the patterns first .. end - 1.
  uint32_t first_pattern(uint32_t code) const { return first_patterns_[code]; }
  uint32_t end_pattern(uint32_t code) const {
    return code < last_code() ? first_patterns_[code + 1] : 0x7F800001U;  // infinity is the last
  }

 private:
  std::vector<double> values_;
  std::vector<double> midpoints_;
  std::vector<uint32_t> first_patterns_;
};

// The formats, in the words of their standards; not the constants of src/numerics.
inline const CodeTable& e4m3_table() {
  static const CodeTable table(3, 7, 0x7E);  // 0x7F is NaN
  return table;
}
inline const CodeTable& e5m2_table() {
  static const CodeTable table(2, 15, 0x7B);  // 0x7C is infinity, never made
  return table;
}
inline const CodeTable& bf16_table() {
  static const CodeTable table(7, 127, 0x7F80);
  return table;
}
inline const CodeTable& fp16_table() {
  static const CodeTable table(10, 15, 0x7C00);
  return table;
}

}  // namespace rowscale::test
