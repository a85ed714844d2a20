// rowscale bench quantize
#include <memory>

#include "bench_compare.hpp"
#include "bench_timing.hpp"
#include "commands.hpp"
#include "failure.hpp"
#include "gpu/commands.hpp"

namespace rowscale::cli {
namespace {

struct Options : BenchOptions {
  bool patterns = false;
};

// The call under measurement and its line; everything that is passed by reference outlives it.
Contender contender(const Problem& problem, const BenchCase& bench_case, const Buffer& input,
                    const Buffer& codes, Target target, int threads) {
  BenchRow row;
  row.recipe = bench_case.name;
  row.target = target;
  row.threads = threads;
  // What has to move: the input as often as it is read, the codes and the scales once.
  row.traffic_bytes = static_cast<double>(problem.float_bytes() * bench_case.passes +
                                          problem.elements() + bench_case.scales.bytes());
  Exec exec;
  exec.target = target;
  exec.threads = threads;
  return {row, [&, exec] {
            require(quantize(problem.floats(input), bench_case.recipe, problem.codes(codes),
                             bench_case.scale_view(), exec));
          }};
}

// Every recipe on every target.
void compare_with_memcpy(const Problem& problem, int threads, BenchReport* report) {
  const Buffer input(problem.float_bytes());
  const Buffer copied(problem.float_bytes());
  const Buffer codes(problem.elements());
  fill(input, problem.dtype, Pattern::normal);
  const std::vector<BenchCase> cases = bench_cases(problem);
  std::vector<Contender> contenders;
  for (const BenchCase& c : cases) {
    for (const Target target : problem.targets) {
      contenders.push_back(contender(problem, c, input, codes, target, threads));
    }
  }
  ParallelCopy memcpy_threads(threads);
  const auto copy = [&] {
    memcpy_threads.copy(copied.data(), input.data(), static_cast<size_t>(input.bytes()));
  };
  report->add_and_print(time_beside_copy(copy, contenders, problem.rounds));
}

// Two recipes on every pattern; the first pattern, normal, runs once more at the end.
void compare_patterns(const Problem& problem, int threads, BenchReport* report) {
  std::vector<Buffer> inputs;
  for (const Pattern pattern : kPatterns) {
    inputs.emplace_back(problem.float_bytes());
    fill(inputs.back(), problem.dtype, pattern);
  }
  const Buffer codes(problem.elements());
  const BenchCase cases[] = {{problem, "per_group(128)", per_group(128)},
                             {problem, "per_token", per_token()}};
  std::vector<BenchRow> rows;
  for (const BenchCase& c : cases) {
    for (const Target target : problem.targets) {
      std::vector<Contender> contenders;
      for (size_t i = 0; i <= inputs.size(); ++i) {
        const Buffer& input = inputs[i % inputs.size()];
        contenders.push_back(contender(problem, c, input, codes, target, threads));
        contenders[i].row.pattern = i < inputs.size() ? to_string(kPatterns[i]) : "normal again";
      }
      for (const BenchRow& row : time_beside_first(contenders, problem.rounds)) rows.push_back(row);
    }
  }
  report->add_and_print_patterns(rows);
}

void run(const CLI::App& command, const Options& options) {
  if (options.device == "cuda") return gpu::bench_quantize(gpu_options(command, options));
  const Problem problem = make_problem(command, options);
  BenchReport report("quantize", problem);
  report.print_heading();
  for (const int threads : problem.threads) compare_with_memcpy(problem, threads, &report);
  if (options.patterns) {
    for (const int threads : problem.threads) compare_patterns(problem, threads, &report);
  }
  if (!options.csv.empty()) report.write_csv(options.csv);
  if (!options.svg.empty()) report.write_svg(options.svg);
}

}  // namespace

void add_bench_quantize(CLI::App* bench) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench->add_subcommand(
      "quantize", "Time quantize for each recipe, beside a memcpy of its input");
  add_bench_options(command, options.get());
  command->add_flag("--patterns", options->patterns,
                    "also time zeros, subnormals, NaN and others (takes 6 times the memory)");
  command->callback([command, options] { run(*command, *options); });
}

}  // namespace rowscale::cli
