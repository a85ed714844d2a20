// rowscale bench dequantize
#include <memory>

#include "bench_compare.hpp"
#include "bench_timing.hpp"
#include "commands.hpp"
#include "failure.hpp"
#include "gpu/commands.hpp"

namespace rowscale::cli {
namespace {

// Every recipe on every target, a memcpy of as many bytes as the output has before each.
void compare_with_memcpy(const Problem& problem, int threads, BenchReport* report) {
  const Buffer floats(problem.float_bytes());
  const Buffer out(problem.float_bytes());
  const Buffer codes(problem.elements());
  fill(floats, problem.dtype, Pattern::normal);
  const std::vector<BenchCase> cases = bench_cases(problem);
  for (const BenchCase& c : cases) {  // leaves scales of its own to each, codes of the last
    require(quantize(problem.floats(floats), c.recipe, problem.codes(codes), c.scale_view()));
  }
  std::vector<Contender> contenders;
  for (const BenchCase& c : cases) {
    if (c.name == "per_tensor given") continue;  // the same work as per_tensor dynamic
    for (const Target target : problem.targets) {
      BenchRow row;
      row.recipe = c.name == "per_tensor dynamic" ? "per_tensor" : c.name;
      row.target = target;
      row.threads = threads;
      row.traffic_bytes =
          static_cast<double>(problem.float_bytes() + problem.elements() + c.scales.bytes());
      Exec exec;
      exec.target = target;
      exec.threads = threads;
      contenders.push_back({row, [&, exec] {
                              require(dequantize(problem.codes(codes), c.scale_view(), c.recipe,
                                                 problem.floats(out), exec));
                            }});
    }
  }
  ParallelCopy memcpy_threads(threads);
  const auto copy = [&] {
    memcpy_threads.copy(out.data(), floats.data(), static_cast<size_t>(floats.bytes()));
  };
  report->add_and_print(time_beside_copy(copy, contenders, problem.rounds));
}

void run(const CLI::App& command, const BenchOptions& options) {
  if (options.device == "cuda") return gpu::bench_dequantize(gpu_options(command, options));
  const Problem problem = make_problem(command, options);
  BenchReport report("dequantize", problem);
  report.print_heading();
  for (const int threads : problem.threads) compare_with_memcpy(problem, threads, &report);
  if (!options.csv.empty()) report.write_csv(options.csv);
  if (!options.svg.empty()) report.write_svg(options.svg);
}

}  // namespace

void add_bench_dequantize(CLI::App* bench) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command = bench->add_subcommand(
      "dequantize", "Time dequantize for each recipe, beside a memcpy of its output");
  add_bench_options(command, options.get());
  command->callback([command, options] { run(*command, *options); });
}

}  // namespace rowscale::cli
