// One call of each operator, as views: what the host hands to a launcher. No device code, so that
// the files that only call kernels need no CUDA compiler.
#pragma once

#include <cstdint>

#include "numerics/fp8.hpp"
#include "numerics/scale_rule.hpp"
#include "plan/row_view.hpp"
#include "plan/scale_view.hpp"
#include "plan/source.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::cuda {

// How large a quotient can be. scaled: up to MAX, because the scale came from the amax. any: a
// bound or a given scale may be smaller than that.
enum class QuotientRange { scaled, any };

struct Rule {
  numerics::ScaleRule scale;
  Quotient quotient = Quotient::divide;
  QuotientRange range = QuotientRange::scaled;

  Rule() = default;
  explicit Rule(const Recipe& recipe)
      : scale{recipe.format == Format::e4m3 ? numerics::E4m3::kMax : numerics::E5m2::kMax,
              recipe.floor.kind,
              recipe.floor.value,
              recipe.bound.kind,
              recipe.bound.value,
              recipe.encoding},
        quotient(recipe.quotient),
        range(recipe.scale_source == ScaleSource::given || recipe.bound.kind != BoundKind::none
                  ? QuotientRange::any
                  : QuotientRange::scaled) {}
};

// The code of a NaN as the difference from 0x7F, in each byte of a word.
inline uint32_t nan_difference(Format format, NanRule rule) {
  const uint32_t max = format == Format::e4m3 ? numerics::E4m3::kMaxCode : numerics::E5m2::kMaxCode;
  const uint32_t code = rule == NanRule::propagate    ? numerics::kNanCode
                        : rule == NanRule::clamp_high ? max
                                                      : 0x80U | max;
  return (code ^ numerics::kNanCode) * 0x01010101U;
}

struct QuantizeCall {
  plan::Source source;
  plan::RowView x;
  plan::RowView codes;
  plan::ScaleGrid grid;  // of the scales that are written, or read where they are given
  plan::ScaleView scales;
  Rule rule;
  uint32_t nan_xor = 0;
  float* partials = nullptr;  // tensor split: plan::kMostPartials amaxes
  int64_t partial_count = 0;
};

struct DequantizeCall {
  plan::Source source;  // dequantized
  plan::RowView codes;
  plan::RowView y;
};

struct RelayoutCall {
  plan::RowView codes;  // batches and masks
  plan::ScaleGrid grid;
  plan::ScaleView from;
  plan::ScaleView to;
  int64_t batches;
  int64_t scales;
};

}  // namespace rowscale::cuda
