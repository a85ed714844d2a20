// Scales from one layout and encoding to another; values stay. A thread a scale.
#pragma once

#include "cuda/calls.hpp"
#include "cuda/device/launch.cuh"
#include "plan/divider.hpp"
#include "plan/row_view.hpp"
#include "plan/scale_view.hpp"

namespace rowscale::cuda {

inline constexpr int kRelayoutThreads = 256;

// A float that is no power of two becomes byte 255 (NaN) in a UE8M0 encoding: numerics::
// ue8m0_of_value. The host cannot look at it without waiting for the device.
__global__ void __launch_bounds__(kRelayoutThreads)
    relayout_scales(const __grid_constant__ RelayoutCall a) {
  const int64_t index = block_index() * kRelayoutThreads + threadIdx.x;
  begin_kernel();
  if (index >= a.scales) return;
  const plan::QuotientRemainder line = plan::divide(index, a.grid.columns);
  const plan::QuotientRemainder at = plan::divide(line.quotient, a.grid.rows);
  const int64_t batch = at.quotient;
  const int64_t row = at.remainder;
  if (!a.grid.one_for_all && row * a.grid.unit_rows >= a.codes.valid_rows(batch)) return;
  a.to.store(batch, row, line.remainder, a.from.load(batch, row, line.remainder));
  a.to.write_pads_after(batch, row, line.remainder,
                        a.codes.is_masked() ? plan::RowMasks::counted : plan::RowMasks::none);
}

}  // namespace rowscale::cuda
