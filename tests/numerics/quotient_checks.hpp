// The sweeps that prove the shortcuts for x / s, shared by the short and the long test.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>

#include "numerics/float16.hpp"
#include "numerics/fp8.hpp"
#include "numerics/quotient.hpp"
#include "numerics/scale_rule.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {

// The two shortcuts behind one interface.
struct Corrected {
  static constexpr bool kTakesAnyInput = true;
  static FastDivisor prepare(float s) { return make_fast_divisor(s); }
  static float quotient(float x, FastDivisor d) { return fast_quotient(x, d); }
};
struct LongReciprocal {
  static constexpr bool kTakesAnyInput = false;  // finite magnitudes
  static numerics::Reciprocal prepare(float s) { return make_reciprocal(s); }
  static float quotient(float x, numerics::Reciprocal r) {
    const float magnitude = fast_magnitude_quotient(std::fabs(x), r);
    return std::signbit(x) ? -magnitude : magnitude;
  }
};
// What is no shortcut: the product alone. The checks must find it.
struct ProductAlone {
  static constexpr bool kTakesAnyInput = true;
  static float prepare(float s) { return 1.0F / s; }
  static float quotient(float x, float r) { return x * r; }
};

struct DecisionSweep {
  int scale_exponent = 0;  // s = significand * 2^(scale_exponent), significand in [1, 2)
  int point_exponent = 0;  // decision points m * 2^point_exponent, m = 1, 3, ..., 31
  uint32_t stride = 1;     // over the 2^23 significands of s
};

// 0 below the point, 1 on it, 2 above. On the point a tie goes to even, whichever side that is.
inline uint32_t side(float q, float point) {
  return q < point ? 0U : (q == point ? 1U : 2U);
}

template <class Shortcut>
test::Mismatches check_decision_points(const DecisionSweep& sweep) {
  constexpr int kNeighbours = 3;
  return test::sweep(0, 1U << 23, [&sweep](uint64_t begin, uint64_t end, test::Mismatches& found) {
    begin = (begin + sweep.stride - 1) / sweep.stride * sweep.stride;
    for (uint64_t significand = begin; significand < end; significand += sweep.stride) {
      const float s = test::float_of((static_cast<uint32_t>(sweep.scale_exponent + 127) << 23) |
                                     static_cast<uint32_t>(significand));
      const auto divisor = Shortcut::prepare(s);
      for (int m = 1; m < 32; m += 2) {
        const float point = std::ldexp(static_cast<float>(m), sweep.point_exponent);
        const double product = static_cast<double>(point) * static_cast<double>(s);  // exact
        if (product >= static_cast<double>(std::numeric_limits<float>::max())) break;
        const auto centre = static_cast<float>(product);
        for (int steps = -kNeighbours; steps <= kNeighbours; ++steps) {
          const float x = test::step_away(centre, steps);
          found.check(test::bits_of(x), side(Shortcut::quotient(x, divisor), point),
                      side(x / s, point), test::bits_of(s));
        }
      }
    }
  });
}

// All pairs x <= amax of a 16-bit dtype, each amax with the scale that a dynamic recipe gives it.
struct PairSweep {
  bool fp16 = false;  // else bf16
  FloorKind floor = FloorKind::none;
  uint32_t amax_stride = 1;
  uint32_t x_stride = 1;
};
// Without it GoogleTest prints the bytes, padding included, in the names of the tests.
inline void PrintTo(const PairSweep& pairs, std::ostream* out) {
  *out << (pairs.fp16 ? "fp16" : "bf16");
}

template <class Shortcut, class F>
test::Mismatches check_pairs(const PairSweep& pairs) {
  const uint32_t infinity_pattern = pairs.fp16 ? 0x7C00U : 0x7F80U;
  const auto value = [&pairs](uint32_t pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    return pairs.fp16 ? to_f32(Fp16{bits}) : to_f32(Bf16{bits});
  };
  ScaleRule rule;
  rule.max = F::kMax;
  rule.floor = pairs.floor;
  rule.floor_value = pairs.floor == FloorKind::amax ? 1e-10F : 1.0F / (F::kMax * 512.0F);
  // Amaxes are dealt out in turn, because a large one has more x below it than a small one.
  const uint32_t turns = (infinity_pattern + pairs.amax_stride - 1) / pairs.amax_stride;
  constexpr uint32_t kDealers = 2;
  return test::sweep(0, kDealers, [&](uint64_t first, uint64_t last, test::Mismatches& found) {
    for (uint64_t dealer = first; dealer < last; ++dealer) {
      for (auto turn = static_cast<uint32_t>(dealer); turn < turns; turn += kDealers) {
        const uint32_t amax = turn * pairs.amax_stride;
        const float s = make_scale(rule, value(amax));
        const uint32_t first_x = amax % pairs.x_stride;  // so that amax is the last one
        if (!fast_quotient_is_valid(s)) {
          found.checked += (amax - first_x) / pairs.x_stride + 1;  // divided: nothing to prove
          continue;
        }
        const auto divisor = Shortcut::prepare(s);
        for (uint32_t x = first_x; x <= amax; x += pairs.x_stride) {
          const float y = value(x);
          found.check(x, encode<F>(Shortcut::quotient(y, divisor)), encode<F>(y / s),
                      test::bits_of(s));
        }
      }
    }
  });
}

}  // namespace rowscale::numerics
