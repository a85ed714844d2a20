// What the command does with a GPU. A build with CUDA has it in the files of this folder; a build
// without has none.cpp, which gives up with a message and the exit code `unsupported`.
#pragma once

#include <string>

#include "bench_matmul.hpp"
#include "bench_source.hpp"
#include "gpu/options.hpp"

namespace rowscale::cli::gpu {

// Throws Failure(unsupported) in a build without CUDA; `what` needs its kernels.
void require_kernels(const std::string& what);

void bench_quantize(const Options& options);
void bench_dequantize(const Options& options);
void bench_fused(const BenchSource& source, const Options& options);
void bench_matmul(const MatmulBench& bench);

// Prints the kernels of this build. Needs no device.
void list_kernels();

}  // namespace rowscale::cli::gpu
