// The commands, each in a file of its own. A command that is chosen runs while its arguments are
// parsed and throws Failure where it cannot do what was asked.
#pragma once

#include <CLI/CLI.hpp>

namespace rowscale::cli {

void add_bench_quantize(CLI::App* bench);
void add_bench_dequantize(CLI::App* bench);
void add_bench_fused(CLI::App* bench);
void add_bench_matmul(CLI::App* bench);
void add_inspect(CLI::App* app);
void add_quantize(CLI::App* app);
void add_verify(CLI::App* app);

}  // namespace rowscale::cli
