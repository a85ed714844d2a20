// The part `calls` of bench matmul: what a call costs the thread that makes it.
#pragma once

#include <vector>

#include "bench_matmul.hpp"
#include "gpu/device.hpp"
#include "gpu/matmul_sets.hpp"

namespace rowscale::cli::gpu {

// One row of A, 4096 x 4096 weights: plan.run of each backend and matmul() with its kept plan,
// beside a bare launch. No graph; the device is idle before each batch of calls.
std::vector<MatmulRow> time_matmul_calls(const MatmulBench& bench, const Gpu& gpu,
                                         const MatmulSample& sample, MatmulCase c,
                                         std::vector<MatmulRefusal>* refusals);

}  // namespace rowscale::cli::gpu
