#include "bench_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "failure.hpp"
#include "gpu/commands.hpp"
#include "output.hpp"

namespace rowscale::cli {
namespace {

std::vector<Target> chosen_targets(const std::string& name) {
  std::vector<Target> all = supported_targets();
  if (name == "all") return all;
  if (name == "best") return {all.front()};
  std::string have;
  for (const Target target : all) {
    if (name == to_string(target)) return {target};
    have += std::string(have.empty() ? "" : ", ") + to_string(target);
  }
  throw Failure(ExitCode::unsupported,
                "--target " + name + ": expected one that this machine has (" + have + ")");
}

void require_writable_outputs(const BenchOptions& options) {
  for (const std::string& path : {options.csv, options.svg}) {
    if (!path.empty()) require_writable(path);
  }
}

constexpr const char* kOnlyCpu[] = {"--mib", "--threads", "--target", "--patterns"};

template <class Value>
Value only_one(const std::string& option, const std::vector<Value>& values) {
  if (values.size() == 1) return values.front();
  throw Failure(ExitCode::usage, fmt::format("{}: expected one value with --device cpu, got {}",
                                             option, values.size()));
}

DType chosen_dtype(const std::string& name) {
  if (name == "f32") return DType::f32;
  return name == "f16" ? DType::f16 : DType::bf16;
}

}  // namespace

void add_bench_options(CLI::App* command, BenchOptions* options) {
  command->add_option("--mib", options->mib, "size of the tensor of floats, in MiB")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--device", options->device, "where to run")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      ->add_option(
          "--hidden", options->hidden,
          "elements in a row (default: 4096); several, as 4096,7168, only with --device cuda")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 24));
  command
      ->add_option("--dtype", options->dtypes,
                   "of the floats; several, as bf16,f16, only with --device cuda")
      ->delimiter(',')
      ->check(CLI::IsMember({"bf16", "f16", "f32"}))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "such as 1,2,4; 0: all processors")
      ->delimiter(',')
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_option("--target", options->target, "instruction set")
      ->check(CLI::IsMember({"best", "scalar", "avx2", "avx512", "all"}))
      ->capture_default_str();
  command
      ->add_option("--repeat", options->rounds,
                   "rounds, of which the medians are reported (default: 7; 15 on a GPU)")
      ->check(CLI::Range(1, 100000));
  command->add_option("--csv", options->csv, "write the numbers to this file");
  command->add_option("--svg", options->svg, "write a picture to this file");
  gpu::add_options(command, &options->gpu);
}

gpu::Options gpu_options(const CLI::App& command, const BenchOptions& options) {
  gpu::require_kernels("bench " + command.get_name() + " --device cuda");
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    for (const char* name : kOnlyCpu) {
      if (option->get_name() != name) continue;
      throw Failure(ExitCode::usage, std::string(name) + ": only with --device cpu");
    }
  }
  require_writable_outputs(options);
  gpu::Options out = options.gpu;
  out.hidden = options.hidden;
  out.dtypes.clear();
  for (const std::string& name : options.dtypes) out.dtypes.push_back(chosen_dtype(name));
  out.rounds = options.rounds == 0 ? out.rounds : options.rounds;
  out.csv = options.csv;
  out.svg = options.svg;
  return out;
}

Problem make_problem(const CLI::App& command, const BenchOptions& options, int64_t inputs) {
  gpu::refuse_options(command);
  require_writable_outputs(options);
  Problem problem;
  problem.machine = this_machine();
  problem.dtype = chosen_dtype(only_one("--dtype", options.dtypes));
  problem.hidden = inputs * (options.hidden.empty() ? 4096 : only_one("--hidden", options.hidden));
  const int64_t row_bytes = problem.hidden * element_size(problem.dtype);
  problem.rows = std::max<int64_t>(1, (options.mib << 20) / row_bytes);
  for (const int threads : options.threads) {
    problem.threads.push_back(threads == 0 ? problem.machine.processors : threads);
  }
  problem.targets = chosen_targets(options.target);
  problem.rounds = options.rounds == 0 ? 7 : options.rounds;
  return problem;
}

TensorView Problem::floats(const Buffer& buffer) const {
  return TensorView::contiguous(buffer.data(), dtype, {rows, hidden});
}

TensorView Problem::codes(const Buffer& buffer) const {
  return TensorView::contiguous(buffer.data(), DType::e4m3, {rows, hidden});
}

namespace {

ScaleSpec spec_of(const Problem& problem, const Recipe& recipe) {
  ScaleSpec spec;
  const TensorView shape = TensorView::contiguous(static_cast<void*>(nullptr), DType::e4m3,
                                                  {problem.rows, problem.hidden});
  require(scale_spec(shape, recipe, &spec));
  return spec;
}

}  // namespace

BenchCase::BenchCase(const Problem& problem, std::string case_name, const Recipe& case_recipe,
                     int case_passes)
    : name(std::move(case_name)),
      recipe(case_recipe),
      passes(case_passes),
      spec(spec_of(problem, recipe)),
      scales(spec.allocation * element_size(spec.dtype)) {
  if (recipe.scale_source != ScaleSource::given) return;
  const float scale = 4.5F / 448.0F;  // of normal data
  std::memcpy(scales.data(), &scale, sizeof scale);
}

std::vector<BenchCase> bench_cases(const Problem& problem) {
  Recipe packed = per_group(128);
  packed.encoding = ScaleEncoding::ue8m0_packed;
  Recipe given = per_tensor();
  given.scale_source = ScaleSource::given;
  std::vector<BenchCase> cases;
  cases.emplace_back(problem, "per_group(128)", per_group(128));
  cases.emplace_back(problem, "per_group(128) ue8m0_packed", packed);
  cases.emplace_back(problem, "per_token", per_token());
  cases.emplace_back(problem, "per_block(128,128)", per_block(128, 128));
  cases.emplace_back(problem, "per_tensor given", given);
  cases.emplace_back(problem, "per_tensor dynamic", per_tensor(), 2);  // first the amax of all
  return cases;
}

}  // namespace rowscale::cli
