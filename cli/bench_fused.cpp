// rowscale bench fused
#include <memory>
#include <optional>

#include "bench_compare.hpp"
#include "bench_source.hpp"
#include "bench_timing.hpp"
#include "commands.hpp"
#include "failure.hpp"
#include "gpu/commands.hpp"

namespace rowscale::cli {
namespace {

struct Options : BenchOptions {
  std::string source = "rms_norm+residual";
};

// What a source reads and writes beside codes and scales.
class SourceBuffers {
 public:
  // `input`: of x; `problem`: of the codes.
  SourceBuffers(const BenchSource& source, const Problem& problem, const Problem& input)
      : problem_(problem), input_(input), x_(input.float_bytes()) {
    const auto filled = [&](int64_t bytes) {
      Buffer buffer(bytes);
      fill(buffer, problem.dtype, Pattern::normal);
      return buffer;
    };
    fill(x_, problem.dtype, Pattern::normal);
    if (source.op == FusedOperator::rms_norm) {
      weight_ = filled(problem.hidden * element_size(problem.dtype));
    }
    if (source.residual == Residual::in_place) residual_ = filled(problem.float_bytes());
    if (source.row_out == RowOut::stored) row_out_.emplace(problem.float_bytes());
  }

  [[nodiscard]] const Buffer& x() const { return x_; }
  [[nodiscard]] SourceTensors tensors() const {
    SourceTensors out;
    out.x = input_.floats(x_);
    if (weight_) {
      out.weight = TensorView::contiguous(weight_->data(), problem_.dtype, {problem_.hidden});
    }
    if (residual_) out.residual = problem_.floats(*residual_);
    if (row_out_) out.row_out = problem_.floats(*row_out_);
    return out;
  }

 private:
  const Problem& problem_;
  const Problem& input_;
  Buffer x_;
  std::optional<Buffer> weight_;
  std::optional<Buffer> residual_;
  std::optional<Buffer> row_out_;
};

// Every recipe on every target, a memcpy of the input before each.
void compare_with_memcpy(const BenchSource& source, const Problem& problem, const Problem& input,
                         int threads, BenchReport* report) {
  const SourceBuffers buffers(source, problem, input);
  const Buffer copied(input.float_bytes());
  const Buffer codes(problem.elements());
  const std::vector<BenchCase> cases = bench_cases(problem);
  std::vector<Contender> contenders;
  for (const BenchCase& c : cases) {
    if (!is_fused_recipe(c.recipe)) continue;
    for (const Target target : problem.targets) {
      BenchRow row;
      row.recipe = c.name;
      row.target = target;
      row.threads = threads;
      row.traffic_bytes = static_cast<double>(
          problem.elements() * source.element_traffic(problem.dtype) + c.scales.bytes());
      Exec exec;
      exec.target = target;
      exec.threads = threads;
      contenders.push_back({row, [&, exec] {
                              require(run_fused(source, buffers.tensors(), c.recipe,
                                                problem.codes(codes), c.scale_view(), exec));
                            }});
    }
  }
  ParallelCopy memcpy_threads(threads);
  const auto copy = [&] {
    memcpy_threads.copy(copied.data(), buffers.x().data(),
                        static_cast<size_t>(buffers.x().bytes()));
  };
  report->add_and_print(time_beside_copy(copy, contenders, problem.rounds));
}

void run(const CLI::App& command, const Options& options) {
  const BenchSource& source = parse_source(options.source);
  if (options.device == "cuda") return gpu::bench_fused(source, gpu_options(command, options));
  const Problem input = make_problem(command, options, source.inputs());
  Problem problem = input;
  problem.hidden /= source.inputs();
  BenchReport report(std::string(source.name) + " and quantize", input);
  report.print_heading();
  for (const int threads : problem.threads) {
    compare_with_memcpy(source, problem, input, threads, &report);
  }
  if (!options.csv.empty()) report.write_csv(options.csv);
  if (!options.svg.empty()) report.write_svg(options.svg);
}

}  // namespace

void add_bench_fused(CLI::App* bench) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench->add_subcommand(
      "fused", "Time a norm or an activation fused with quantize, beside a memcpy of its input");
  add_bench_options(command, options.get());
  command->add_option("--source", options->source, "what makes the rows: " + source_names())
      ->capture_default_str();
  command->callback([command, options] { run(*command, *options); });
}

}  // namespace rowscale::cli
