// rowscale bench matmul
#include "bench_matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "bench_timing.hpp"
#include "commands.hpp"
#include "failure.hpp"
#include "gpu/commands.hpp"
#include "machine.hpp"
#include "output.hpp"
#include "rowscale/version.hpp"

namespace rowscale::cli {
namespace {

constexpr int64_t kSampleBytes = int64_t{16} << 20;
constexpr int64_t kCopyBytes = int64_t{256} << 20;
constexpr int64_t kMostSets = 64;
constexpr int64_t kMasks = 16;  // rows of an expert are a multiple

struct Options {
  std::string device = "cpu";
  std::string model;
  std::vector<std::string> shapes;
  std::vector<int64_t> m;
  std::vector<int64_t> tokens;
  int64_t experts = 0;
  int64_t top_k = 1;
  std::vector<std::string> scales = {"token-channel"};
  std::vector<std::string> outs = {"bf16"};
  std::vector<std::string> accumulations = {"precise"};
  std::vector<std::string> backends = {"all"};
  std::string tuning = "off";
  std::string dependent_launch = "off";
  std::vector<std::string> parts;
  int threads = 1;
  int rounds = 0;
  std::string csv;
  std::string svg;
};

DType parse_out(const std::string& name) {
  if (name == "f32") return DType::f32;
  return name == "f16" ? DType::f16 : DType::bf16;
}

std::vector<MatmulBackend> backends_of(const std::vector<std::string>& names, bool on_gpu) {
  using enum MatmulBackend;
  std::vector<MatmulBackend> out;
  for (const std::string& name : names) {
    if (name == "all" && on_gpu) {
      out.insert(out.end(), {cublaslt, split, small_m, general, dequantize, best});
    } else if (name == "all") {
      out.insert(out.end(), {cpu, best});
    } else {
      out.push_back(name == "best" ? best : parse_backend(name));
    }
  }
  return out;
}

std::vector<LinearShape> layers_of(const Options& options) {
  std::vector<LinearShape> layers;
  if (!options.model.empty()) layers = linear_shapes(options.model);
  std::vector<LinearShape> named = parse_matmul_shapes(options.shapes);
  if (layers.empty() && named.empty()) named.push_back({"", 4096, 4096});
  if (options.top_k > std::max<int64_t>(options.experts, 1)) {
    throw Failure(ExitCode::usage, fmt::format("--top-k: expected at most --experts, {}, got {}",
                                               options.experts, options.top_k));
  }
  for (LinearShape& shape : named) {
    shape.experts = options.experts;
    shape.top_k = options.experts > 0 ? options.top_k : 0;
    layers.push_back(shape);
  }
  return layers;
}

std::vector<MatmulPart> parts_of(const Options& options, bool on_gpu) {
  using enum MatmulPart;
  if (options.parts.empty()) {
    if (on_gpu && !options.model.empty()) return {dense, linear, grouped, calls};
    return {dense, grouped};
  }
  std::vector<MatmulPart> parts;
  for (const std::string& key : options.parts) {
    parts.push_back(parse_matmul_part(key));
    if (!on_gpu && (parts.back() == linear || parts.back() == calls)) {
      throw Failure(ExitCode::usage, "--parts " + key + ": only with --device cuda");
    }
  }
  return parts;
}

MatmulBench resolve(const Options& options) {
  const bool on_gpu = options.device == "cuda";
  MatmulBench out;
  out.layers = layers_of(options);
  out.m = options.m;
  if (out.m.empty()) {
    out.m = on_gpu ? std::vector<int64_t>{1, 8, 16, 32, 64, 128, 512, 4096}
                   : std::vector<int64_t>{1, 16, 64};
  }
  std::sort(out.m.begin(), out.m.end());
  out.tokens = options.tokens;
  if (out.tokens.empty()) {
    out.tokens = on_gpu ? std::vector<int64_t>{64, 4096} : std::vector<int64_t>{16};
  }
  for (const std::string& key : options.scales) out.scales.push_back(parse_matmul_scales(key));
  for (const std::string& name : options.outs) out.outs.push_back(parse_out(name));
  for (const std::string& name : options.accumulations) {
    out.accumulations.push_back(name == "fast" ? Accumulation::fast : Accumulation::precise);
  }
  out.backends = backends_of(options.backends, on_gpu);
  if (options.tuning == "measured") out.tuning = Tuning::measured;
  if (options.dependent_launch == "on") out.dependent_launch = DependentLaunch::on;
  out.parts = parts_of(options, on_gpu);
  out.threads = options.threads == 0 ? this_machine().processors : options.threads;
  out.rounds = options.rounds != 0 ? options.rounds : on_gpu ? 15 : 7;
  out.csv = options.csv;
  out.svg = options.svg;
  return out;
}

// The operands of a case in host memory, several sets that together exceed the cache.
class HostSets {
 public:
  struct Sample {
    Buffer codes{kSampleBytes};
    Buffer scales{kSampleBytes / 16};
    Sample() {
      fill_codes(codes);
      fill_scales(scales);
    }
  };

  HostSets(const MatmulCase& c, const Sample& sample, const Routing* routing, int64_t sets)
      : case_(c), shapes_(c.shapes({})), routing_(routing) {
    for (int64_t i = 0; i < sets; ++i) {
      Set set{Buffer(elements(shapes_.a)), Buffer(elements(shapes_.b)),
              Buffer(c.scale_a().allocation * 4), Buffer(c.scale_b().allocation * 4),
              Buffer(elements(shapes_.out) * element_size(c.out))};
      tile(sample.codes, set.a);
      tile(sample.codes, set.b);
      tile(sample.scales, set.scale_a);
      tile(sample.scales, set.scale_b);
      sets_.push_back(std::move(set));
    }
  }

  [[nodiscard]] int count() const { return static_cast<int>(sets_.size()); }
  // Another set with every call.
  MatmulTensors next() {
    const Set& set = sets_[next_++ % sets_.size()];
    MatmulTensors t = shapes_;
    t.a.data = set.a.data();
    t.b.data = set.b.data();
    t.scale_a.data = set.scale_a.data();
    t.scale_b.data = set.scale_b.data();
    t.out.data = set.out.data();
    if (case_.rows == ExpertRows::masked) t.a = t.a.with_row_counts(routing_->counts.data());
    if (case_.rows == ExpertRows::sorted) {
      t.expert_offsets =
          TensorView::contiguous(routing_->offsets.data(), DType::i32, {case_.layer.experts + 1});
    }
    return t;
  }

 private:
  struct Set {
    Buffer a, b, scale_a, scale_b, out;
  };

  static int64_t elements(const TensorView& view) { return view.rows() * view.columns(); }
  static void tile(const Buffer& from, const Buffer& to) {
    for (int64_t at = 0; at < to.bytes(); at += from.bytes()) {
      const int64_t bytes = std::min(from.bytes(), to.bytes() - at);
      std::memcpy(to.data() + at, from.data(), static_cast<size_t>(bytes));
    }
  }

  MatmulCase case_;
  MatmulTensors shapes_;
  const Routing* routing_;
  std::vector<Set> sets_;
  size_t next_ = 0;
};

// A benchmark of one machine's CPU.
class CpuBench {
 public:
  explicit CpuBench(const MatmulBench& bench)
      : bench_(bench), machine_(this_machine()), ceiling_rate_(copy_rate()) {}

  void run() {
    MatmulReport report({{"date", utc_now()},
                         {"version", version()},
                         {"cpu", machine_.cpu},
                         {"processors", std::to_string(machine_.processors)},
                         {"threads", std::to_string(bench_.threads)}},
                        to_string(machine_), bench_.rounds);
    report.print_heading(ceiling_rate_);
    for (const LinearShape& layer : bench_.layers) {
      for (const MatmulCase& c : bench_.cases_of(layer)) measure(c, &report);
    }
    if (report.is_empty()) throw Failure(ExitCode::unsupported, "no backend serves any case");
    bench_.write(report);
  }

 private:
  void measure(MatmulCase c, MatmulReport* report) {
    std::vector<MatmulRow> rows;
    std::vector<MatmulRefusal> refusals;
    if (c.layer.experts == 0 && bench_.has(MatmulPart::dense)) {
      for (const int64_t m : bench_.m) {
        c.m = m;
        add(MatmulPart::dense, c, nullptr, &rows, &refusals);
      }
    } else if (c.layer.experts > 0 && bench_.has(MatmulPart::grouped)) {
      for (const int64_t tokens : bench_.tokens) {
        const Routing routing = route(c.layer, tokens);
        for (const ExpertRows form : {ExpertRows::sorted, ExpertRows::masked}) {
          add(MatmulPart::grouped, MatmulBench::grouped(c, form, tokens, routing), &routing, &rows,
              &refusals);
        }
      }
    }
    report->add_and_print(rows, refusals);
  }

  void add(MatmulPart part, const MatmulCase& c, const Routing* routing,
           std::vector<MatmulRow>* rows, std::vector<MatmulRefusal>* refusals) {
    PlannedCase planned = plan_case(c, bench_.backends, bench_.tuning, {});
    for (BackendRefusal& refusal : planned.refusals) refusals->push_back({c, std::move(refusal)});
    if (planned.plans.empty()) return;
    const double bytes = routing == nullptr ? c.bytes() : c.bytes(routing->touched, routing->rows);
    const auto cache = static_cast<int64_t>(machine_.l3_mib * (1 << 20));
    const int64_t cold = 1 + 3 * cache / std::max<int64_t>(1, static_cast<int64_t>(bytes));
    HostSets sets(c, sample_, routing, std::min(cold, kMostSets));
    Exec exec;
    exec.threads = bench_.threads;
    std::list<Buffer> workspaces;
    std::vector<std::function<void()>> actions;
    for (const PlannedMatmul& one : planned.plans) {
      Exec own = exec;
      if (const size_t needed = one.plan.workspace_bytes(); needed > 0) {
        workspaces.emplace_back(static_cast<int64_t>(needed));
        own.workspace = {workspaces.back().data(), needed};
      }
      actions.emplace_back([&one, &sets, own] { require(one.plan.run(sets.next(), own)); });
    }
    const RoundTimes times = time_rounds(actions, bench_.rounds);
    for (size_t i = 0; i < actions.size(); ++i) {
      const PlannedMatmul& one = planned.plans[i];
      MatmulRow row;
      row.part = part;
      row.problem = c;
      row.call = "matmul";
      row.backend = one.plan.backend();
      row.algorithm = one.algorithm;
      row.tuning = one.tuning;
      row.is_chosen = one.is_chosen;
      row.is_tuned_choice = one.is_tuned_choice;
      row.seconds = median(times[i]);
      row.bytes = bytes;
      row.ceiling_rate = ceiling_rate_;
      row.touched = routing == nullptr ? 0 : routing->touched;
      row.sets = sets.count();
      row.launches = 1;
      rows->push_back(row);
    }
  }

  // Bytes a second that memcpy reads and writes.
  [[nodiscard]] double copy_rate() const {
    const Buffer from(kCopyBytes);
    const Buffer to(kCopyBytes);
    ParallelCopy copy(bench_.threads);
    const RoundTimes times =
        time_rounds({[&] { copy.copy(to.data(), from.data(), static_cast<size_t>(kCopyBytes)); }},
                    bench_.rounds);
    return 2.0 * static_cast<double>(kCopyBytes) / median(times[0]);
  }

  const MatmulBench& bench_;
  Machine machine_;
  double ceiling_rate_;
  HostSets::Sample sample_;
};

void run(const Options& options) {
  if (options.device == "cuda") gpu::require_kernels("bench matmul --device cuda");
  const MatmulBench bench = resolve(options);
  for (const std::string& path : {bench.csv, bench.svg}) {
    if (!path.empty()) require_writable(path);
  }
  if (options.device == "cuda") return gpu::bench_matmul(bench);
  CpuBench(bench).run();
}

void add_shape_options(CLI::App* command, Options* options) {
  constexpr int64_t kMost = int64_t{1} << 30;
  command->add_option("--model", options->model,
                      "config.json of a model, or its folder: its linear layers and experts");
  command
      ->add_option("--shapes", options->shapes,
                   "n x k of weights: 6144x4096,... "
                   "(default: 4096x4096)")
      ->delimiter(',');
  command->add_option("--m", options->m, "rows of A, such as 1,8,4096")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, kMost));
  command->add_option("--experts", options->experts, "the shapes are those of so many experts")
      ->check(CLI::Range(1, 4096));
  command->add_option("--top-k", options->top_k, "experts of a token")->check(CLI::Range(1, 4096));
  command->add_option("--tokens", options->tokens, "that are sent to experts, such as 64,4096")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 24));
}

void add_choice_options(CLI::App* command, Options* options) {
  command->add_option("--scales", options->scales, "of A and B: " + matmul_scales_keys())
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--out-dtype", options->outs, "of D")
      ->delimiter(',')
      ->check(CLI::IsMember({"bf16", "f16", "f32"}))
      ->capture_default_str();
  command->add_option("--accumulation", options->accumulations, "of the sums over k")
      ->delimiter(',')
      ->check(CLI::IsMember({"precise", "fast"}))
      ->capture_default_str();
  command
      ->add_option("--backend", options->backends,
                   "all, best (what a plan takes), or names such as small_m,cublaslt")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--tuning", options->tuning, "how the best is chosen")
      ->check(CLI::IsMember({"off", "measured"}))
      ->capture_default_str();
  command->add_option("--dependent-launch", options->dependent_launch, "Exec::dependent_launch")
      ->check(CLI::IsMember({"off", "on"}))
      ->capture_default_str();
  command
      ->add_option("--parts", options->parts,
                   "dense; linear: quantize and matmul beside matmul alone; grouped: experts; "
                   "calls: time of the calling thread (default: dense,grouped; of a model on a "
                   "GPU all)")
      ->delimiter(',');
}

}  // namespace

bool MatmulBench::has(MatmulPart part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

std::vector<MatmulCase> MatmulBench::cases_of(const LinearShape& layer) const {
  std::vector<MatmulCase> cases;
  for (const MatmulScales pair : scales) {
    for (const DType out : outs) {
      for (const Accumulation accumulation : accumulations) {
        MatmulCase c;
        c.layer = layer;
        c.scales = pair;
        c.out = out;
        c.accumulation = accumulation;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

MatmulCase MatmulBench::grouped(MatmulCase c, ExpertRows rows, int64_t tokens,
                                const Routing& routing) {
  c.rows = rows;
  c.tokens = tokens;
  c.m = rows == ExpertRows::sorted ? routing.rows : (routing.most + kMasks - 1) / kMasks * kMasks;
  return c;
}

void MatmulBench::write(const MatmulReport& report) const {
  if (!csv.empty()) write_file(csv, report.csv());
  if (!svg.empty()) write_file(svg, report.svg());
}

void add_bench_matmul(CLI::App* bench) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench->add_subcommand(
      "matmul", "Time products of FP8 matrices by each backend, beside the floor of their bytes");
  command->add_option("--device", options->device, "where to run")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  add_shape_options(command, options.get());
  add_choice_options(command, options.get());
  command->add_option("--threads", options->threads, "of a CPU; 0: all processors")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command
      ->add_option("--repeat", options->rounds,
                   "rounds, of which the medians are reported (default: 7; 15 on a GPU)")
      ->check(CLI::Range(1, 100000));
  command->add_option("--csv", options->csv, "write the numbers to this file");
  command->add_option("--svg", options->svg, "write a picture to this file");
  command->callback([options] { run(*options); });
}

}  // namespace rowscale::cli
