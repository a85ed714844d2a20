// rowscale bench quantize --device cuda --calls: what a call costs the thread that makes it.
#pragma once

#include <functional>

#include "gpu/device.hpp"
#include "gpu/options.hpp"

namespace rowscale::cli::gpu {

// Microseconds of the calling thread for each recipe at one token, beside those of a bare launch of
// a kernel that copies as much. No graph; the device is idle before each batch of calls.
void time_host_calls(const Options& options);

// Seconds of one call of the thread that makes it, the median over the rounds of the mean over a
// batch of 200, before each of which the stream is idle.
double time_calls(const std::function<void(cudaStream_t)>& call, const Stream& stream, int rounds);

}  // namespace rowscale::cli::gpu
