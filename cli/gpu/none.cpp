// The answers of a build without CUDA.
#include "failure.hpp"
#include "gpu/commands.hpp"

namespace rowscale::cli::gpu {
namespace {

[[noreturn]] void give_up(const std::string& what) {
  throw Failure(ExitCode::unsupported,
                what + ": this build has no CUDA kernels (ROWSCALE_CUDA=ON with nvcc)");
}

}  // namespace

void require_kernels(const std::string& what) {
  give_up(what);
}

void bench_quantize(const Options& /*options*/) {
  give_up("bench quantize --device cuda");
}

void bench_dequantize(const Options& /*options*/) {
  give_up("bench dequantize --device cuda");
}

void bench_fused(const BenchSource& /*source*/, const Options& /*options*/) {
  give_up("bench fused --device cuda");
}

void bench_matmul(const MatmulBench& /*bench*/) {
  give_up("bench matmul --device cuda");
}

void list_kernels() {
  give_up("list-kernels");
}

}  // namespace rowscale::cli::gpu
