// Data whose scales are powers of two chosen by the test.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/support/test_data.hpp"

namespace rowscale::test {

// Data of [rows, groups * size] whose group (t, g) has the scale 2^exponent(t, g): its largest
// element is 448 * 2^e.
inline std::vector<std::byte> data_with_exponents(
    int64_t rows, int64_t groups, int64_t size,
    const std::function<int(int64_t, int64_t)>& exponent) {
  std::vector<float> x;
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t i = 0; i < size; ++i) {
        x.push_back(i == size / 2 ? std::ldexp(-448.0F, exponent(t, g)) : 0.0F);
      }
    }
  }
  return data_of(DType::f32, x);
}

}  // namespace rowscale::test
