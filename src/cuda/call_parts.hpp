// What the operators make their calls of.
#pragma once

#include "cuda/calls.hpp"
#include "cuda/device/launcher.hpp"
#include "cuda/devices.hpp"
#include "cuda/operators.hpp"

namespace rowscale::cuda {

Launch launch_of(const Exec& exec, const DeviceFacts& facts, int64_t blocks, int threads);

// A call that quantizes, and one that stores rows only.
QuantizeCall quantize_call(const plan::Source& source, const Recipe& recipe,
                           const TensorView& codes, const TensorView& scales,
                           const plan::GpuPlan& plan);
QuantizeCall rows_call(const plan::Source& source, const TensorView& y, const plan::GpuPlan& plan);

}  // namespace rowscale::cuda
