// The command rowscale: names its commands and turns every end into an exit code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "checkpoint_failure.hpp"
#include "commands.hpp"
#include "failure.hpp"
#include "gpu/commands.hpp"
#include "rowscale/version.hpp"

namespace rowscale::cli {
namespace {

int run(int argc, char** argv) {
  CLI::App app("FP8 quantization for LLM inference", "rowscale");
  app.set_version_flag("--version", std::string(version()));
  app.require_subcommand(1);
  add_quantize(&app);
  CLI::App* bench = app.add_subcommand("bench", "Measure speed on this machine");
  bench->require_subcommand(1);
  add_bench_quantize(bench);
  add_bench_dequantize(bench);
  add_bench_fused(bench);
  add_bench_matmul(bench);
  app.add_subcommand("list-kernels", "Print the CUDA kernels of this build")->callback([] {
    gpu::list_kernels();
  });
  add_inspect(&app);
  add_verify(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version end here too, with 0. CLI11 has a code for each mistake; we have one.
    if (app.exit(error) != 0) return static_cast<int>(ExitCode::usage);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw Failure(ExitCode::output, "stdout cannot be written");
  return static_cast<int>(ExitCode::done);
}

int end(ExitCode code, const char* message) {
  std::fprintf(stderr, "rowscale: %s\n", message);
  return static_cast<int>(code);
}

}  // namespace
}  // namespace rowscale::cli

int main(int argc, char** argv) {
  using rowscale::cli::ExitCode;
  try {
    return rowscale::cli::run(argc, argv);
  } catch (const rowscale::cli::Failure& failure) {
    return rowscale::cli::end(failure.code(), failure.what());
  } catch (const rowscale::checkpoint::Failure& failure) {
    return rowscale::cli::end(rowscale::cli::exit_code_of(failure.kind()), failure.what());
  } catch (const std::bad_alloc&) {
    return rowscale::cli::end(ExitCode::output, "not enough memory");
  } catch (const std::system_error& error) {  // a thread that cannot start, a closed stdout
    return rowscale::cli::end(ExitCode::output, error.what());
  } catch (const std::exception& error) {
    return rowscale::cli::end(ExitCode::fault, error.what());
  }
}
