// rowscale bench quantize --device cuda --calls: what a call costs the thread that makes it.
#pragma once

#include "gpu/options.hpp"

namespace rowscale::cli::gpu {

// Microseconds of the calling thread for each recipe at one token, beside those of a bare launch of
// a kernel that copies as much. No graph; the device is idle before each batch of calls.
void time_host_calls(const Options& options);

}  // namespace rowscale::cli::gpu
