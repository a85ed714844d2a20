// From an amax to the scale that is stored and the operand that the data are divided by.
// docs/numerics.md section 3.
#pragma once

#include "numerics/fp.hpp"
#include "numerics/ue8m0.hpp"
#include "rowscale/types.hpp"

namespace rowscale::numerics {

// A resolved recipe's rule for dynamic scales; floor is never `standard`.
struct ScaleRule {
  float max = 448.0F;  // MAX of the code's format
  FloorKind floor = FloorKind::none;
  float floor_value = 0.0F;
  BoundKind bound = BoundKind::none;
  float bound_value = 0.0F;
  ScaleEncoding encoding = ScaleEncoding::f32;
};

struct Scale {
  float value;   // as a float encoding stores it, and what the data are divided by
  uint8_t byte;  // as the byte encodings store it; meaningless for f32
};

// min(x, bound): a NaN bound is ignored, a negative one counts as 0 so that the floor decides.
ROWSCALE_HD float apply_bound(float x, float bound) {
  if (is_nan(bound)) return x;
  const float limit = bound > 0.0F ? bound : 0.0F;
  return limit < x ? limit : x;
}

// amax >= 0 and no NaN.
ROWSCALE_HD Scale make_scale(const ScaleRule& rule, float amax) {
  if (rule.bound == BoundKind::amax) amax = apply_bound(amax, rule.bound_value);
  if (rule.floor == FloorKind::amax) amax = amax > rule.floor_value ? amax : rule.floor_value;
  float s = div(amax, rule.max);
  if (rule.bound == BoundKind::scale) s = apply_bound(s, rule.bound_value);
  if (rule.floor == FloorKind::scale) s = s > rule.floor_value ? s : rule.floor_value;
  if (rule.floor == FloorKind::if_zero && s == 0.0F) s = rule.floor_value;
  if (rule.encoding == ScaleEncoding::f32) return {s, 0};
  const uint8_t byte = ue8m0_round_up(s);
  return {ue8m0_quotient_operand(byte), byte};
}

}  // namespace rowscale::numerics
