// One call of each operator, as views: what the host hands to a launcher. No device code, so that
// the files that only call kernels need no CUDA compiler.
#pragma once

#include <cstdint>

#include "numerics/fp8.hpp"
#include "plan/gpu_plan.hpp"
#include "plan/row_view.hpp"
#include "plan/scale_view.hpp"
#include "plan/source.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale::cuda {

// The code of a NaN as the difference from 0x7F, in each byte of a word.
inline uint32_t nan_difference(Format format, NanRule rule) {
  const uint32_t max = format == Format::e4m3 ? numerics::E4m3::kMaxCode : numerics::E5m2::kMaxCode;
  const uint32_t code = rule == NanRule::propagate    ? numerics::kNanCode
                        : rule == NanRule::clamp_high ? max
                                                      : 0x80U | max;
  return (code ^ numerics::kNanCode) * 0x01010101U;
}

struct QuantizeCall {
  plan::GpuLoads loads = plan::GpuLoads::cached;
  plan::GpuUnits units = plan::GpuUnits::beside;
  int teams = 0;  // norm_team: of the plan
  int depth = 0;
  plan::Source source;
  Recipe recipe;  // resolved
  plan::RowView x;
  plan::RowView codes;
  plan::ScaleGrid grid;       // of the scales that are written, or read where they are given
  void* scales = nullptr;     // their storage
  float* partials = nullptr;  // tensor split: an amax a block of the first pass
  int partial_count = 0;
};

// Columns of rows that are copied.
struct RopeCall {
  plan::RowView from;
  plan::RowView to;
  int64_t columns = 0;  // 0: none
};

// The parts of rows of latent attention. Without codes kv has no scales.
struct MlaCall {
  QuantizeCall q;
  QuantizeCall kv;
  RopeCall rope;
};

struct DequantizeCall {
  plan::GpuLoads loads = plan::GpuLoads::cached;
  plan::Source source;  // dequantized
  plan::RowView codes;
  plan::RowView y;
};

struct RelayoutCall {
  plan::RowView codes;  // batches and masks
  plan::ScaleGrid grid;
  plan::ScaleView from;
  plan::ScaleView to;
  int64_t scales = 0;
};

}  // namespace rowscale::cuda
