// rowscale bench matmul with --device cuda
#include <algorithm>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench_timing.hpp"
#include "failure.hpp"
#include "gpu/ceiling_kernels.hpp"
#include "gpu/commands.hpp"
#include "gpu/matmul_calls.hpp"
#include "gpu/matmul_sets.hpp"
#include "gpu/measure.hpp"
#include "machine.hpp"
#include "rowscale/version.hpp"

namespace rowscale::cli::gpu {
namespace {

constexpr int64_t kCeilingElements = int64_t{64} << 20;  // 8 bytes read and 1 written for each
constexpr int kCeilingLaunches = 20;

// Bytes a second of the fastest kernel that copies eight bytes into one, or reads alone.
double ceiling_rate(int rounds, GraphTimer* timer) {
  constexpr Traffic kTraffic{8, 1};
  const DeviceBuffer in(kCeilingElements * kTraffic.read);
  const DeviceBuffer out(kCeilingElements);
  check(cudaMemset(in.data(), 1, static_cast<size_t>(in.bytes())), "cudaMemset");
  std::vector<GpuContender> contenders;
  std::vector<double> bytes;
  for (const CopyVariant& variant : kCopyVariants) {
    contenders.push_back(
        {[&, variant](int /*set*/, cudaStream_t stream) {
           check(launch_copy(kTraffic, variant, in.data(), out.data(), kCeilingElements, stream),
                 "launch_copy");
         },
         {1, kCeilingLaunches}});
    bytes.push_back(static_cast<double>(in.bytes() + out.bytes()));
  }
  contenders.push_back({[&](int /*set*/, cudaStream_t stream) {
                          check(launch_read(in.data(), in.bytes(), out.data(), stream),
                                "launch_read");
                        },
                        {1, kCeilingLaunches}});
  bytes.push_back(static_cast<double>(in.bytes()));
  const auto times = timer->time(contenders, rounds);
  double best = 0;
  for (size_t i = 0; i < times.size(); ++i) best = std::max(best, bytes[i] / median(times[i]));
  return best;
}

// What a product is quantized from before it.
class Activations {
 public:
  Activations(const Gpu& gpu, const MatmulCase& c, const MatmulSample& sample, int sets)
      : device_{DeviceType::cuda, gpu.index},
        shape_{c.m, c.layer.k},
        recipe_(c.options(MatmulBackend::best, Tuning::off).a),
        x_(sets, c.m * c.layer.k * element_size(DType::bf16)) {
    x_.buffer().tile(sample.floats);
    const size_t bytes = quantize_workspace_bytes(view(0), recipe_);
    if (bytes > 0) workspace_.emplace(static_cast<int64_t>(bytes));
  }

  [[nodiscard]] Status quantize(int set, const MatmulTensors& tensors, Exec exec) const {
    exec.workspace = {};
    if (workspace_) {
      exec.workspace = {workspace_->data(), static_cast<size_t>(workspace_->bytes())};
    }
    return rowscale::quantize(view(set), recipe_, tensors.a, tensors.scale_a, exec);
  }

 private:
  [[nodiscard]] TensorView view(int set) const {
    return TensorView::contiguous(x_.data(set), DType::bf16, {shape_[0], shape_[1]}, device_);
  }

  Device device_;
  int64_t shape_[2];
  Recipe recipe_;
  TensorSet x_;
  std::optional<DeviceBuffer> workspace_;
};

class GpuBench {
 public:
  explicit GpuBench(const MatmulBench& bench) : bench_(bench), gpu_(open_gpu()), timer_(gpu_) {}

  void run() {
    warm_up(gpu_, &timer_);
    read_clock(&gpu_);
    ceiling_rate_ = ceiling_rate(bench_.rounds, &timer_);
    MatmulReport report({{"date", utc_now()},
                         {"version", version()},
                         {"gpu", gpu_.name},
                         {"multiprocessors", std::to_string(gpu_.multiprocessors)},
                         {"driver", gpu_.driver},
                         {"cuda", cuda_version(gpu_)},
                         {"sm_clock_mhz", std::to_string(gpu_.sm_clock_mhz)}},
                        to_string(gpu_), bench_.rounds);
    report.print_heading(ceiling_rate_);
    for (const LinearShape& layer : bench_.layers) {
      for (const MatmulCase& c : bench_.cases_of(layer)) {
        if (layer.experts > 0) {
          if (bench_.has(MatmulPart::grouped)) grouped(c, &report);
          continue;
        }
        if (bench_.has(MatmulPart::dense)) dense(c, &report);
        if (bench_.has(MatmulPart::linear)) linear(c, &report);
      }
    }
    if (bench_.has(MatmulPart::calls)) {
      for (const MatmulCase& c : bench_.cases_of({})) {
        std::vector<MatmulRefusal> refusals;
        const std::vector<MatmulRow> rows = time_matmul_calls(bench_, gpu_, sample_, c, &refusals);
        report.add_and_print(rows, refusals);
      }
    }
    if (report.is_empty()) throw Failure(ExitCode::unsupported, "no backend serves any case");
    bench_.write(report);
  }

 private:
  void dense(MatmulCase c, MatmulReport* report) {
    std::vector<MatmulRow> rows;
    std::vector<MatmulRefusal> refusals;
    for (const int64_t m : bench_.m) {
      c.m = m;
      add(MatmulPart::dense, c, nullptr, &rows, &refusals);
    }
    report->add_and_print(rows, refusals);
  }

  void grouped(const MatmulCase& c, MatmulReport* report) {
    std::vector<MatmulRow> rows;
    std::vector<MatmulRefusal> refusals;
    for (const int64_t tokens : bench_.tokens) {
      const Routing routing = route(c.layer, tokens);
      for (const ExpertRows form : {ExpertRows::sorted, ExpertRows::masked}) {
        add(MatmulPart::grouped, MatmulBench::grouped(c, form, tokens, routing), &routing, &rows,
            &refusals);
      }
    }
    report->add_and_print(rows, refusals);
  }

  // The plan's product alone, and behind quantize.
  void linear(MatmulCase c, MatmulReport* report) {
    std::vector<MatmulRow> rows;
    std::vector<MatmulRefusal> refusals;
    for (const int64_t m : bench_.m) {
      c.m = m;
      const auto planned = plan({MatmulBackend::best}, Tuning::off, c, &refusals);
      if (planned.empty()) continue;
      const RunnableMatmul& one = planned.front();
      const MatmulSets sets(gpu_, c, sample_, nullptr, c.bytes());
      const Activations x(gpu_, c, sample_, sets.repeated().sets);
      const auto product = [&](int set, cudaStream_t stream) {
        require(one.run(sets.tensors(set), stream));
      };
      const auto quantized = [&](int set, cudaStream_t stream) {
        require(x.quantize(set, sets.tensors(set), one.exec(stream)));
        product(set, stream);
      };
      if (!runs("quantize", x.quantize(0, sets.tensors(0), one.exec(nullptr))) ||
          !runs(rowscale::to_string(one.planned().plan.backend()),
                one.run(sets.tensors(0), nullptr))) {
        continue;
      }
      const auto times =
          timer_.time({{product, sets.repeated()}, {quantized, sets.repeated()}}, bench_.rounds);
      for (const size_t i : {size_t{0}, size_t{1}}) {
        MatmulRow row = row_of(MatmulPart::linear, c, one.planned(), sets.repeated());
        row.call = i == 0 ? "matmul" : "quantize + matmul";
        row.bytes = c.bytes();
        if (i == 1) row.bytes += static_cast<double>(c.m * c.layer.k) * 2;
        row.seconds = median(times[i]);
        row.reference = median(times[0]);
        row.over_reference = median_ratio(times[i], times[0]);
        rows.push_back(row);
      }
    }
    report->add_and_print(rows, refusals);
  }

  // Every backend on one case in the same rounds.
  void add(MatmulPart part, const MatmulCase& c, const Routing* routing,
           std::vector<MatmulRow>* rows, std::vector<MatmulRefusal>* refusals) {
    std::list<RunnableMatmul> planned = plan(bench_.backends, bench_.tuning, c, refusals);
    if (planned.empty()) return;
    const double bytes = routing == nullptr ? c.bytes() : c.bytes(routing->touched, routing->rows);
    const MatmulSets sets(gpu_, c, sample_, routing, bytes);
    planned.remove_if([&](const RunnableMatmul& one) {
      return !runs(rowscale::to_string(one.planned().plan.backend()),
                   one.run(sets.tensors(0), nullptr));
    });
    std::vector<GpuContender> contenders;
    for (const RunnableMatmul& one : planned) {
      contenders.push_back(
          {[&](int set, cudaStream_t stream) { require(one.run(sets.tensors(set), stream)); },
           sets.repeated()});
    }
    if (contenders.empty()) return;
    const auto times = timer_.time(contenders, bench_.rounds);
    const std::vector<double>* reference = nullptr;
    size_t i = 0;
    for (const RunnableMatmul& one : planned) {
      const PlannedMatmul& made = one.planned();
      if (made.plan.backend() == MatmulBackend::cublaslt && made.tuning == Tuning::off) {
        reference = &times[i];
      }
      ++i;
    }
    i = 0;
    for (const RunnableMatmul& one : planned) {
      MatmulRow row = row_of(part, c, one.planned(), sets.repeated());
      row.call = "matmul";
      row.bytes = bytes;
      row.touched = routing == nullptr ? 0 : routing->touched;
      row.seconds = median(times[i]);
      if (reference != nullptr) {
        row.reference = median(*reference);
        row.over_reference = median_ratio(times[i], *reference);
      }
      rows->push_back(row);
      ++i;
    }
  }

  std::list<RunnableMatmul> plan(const std::vector<MatmulBackend>& backends, Tuning tuning,
                                 const MatmulCase& c, std::vector<MatmulRefusal>* refusals) const {
    PlannedCase planned = plan_case(c, backends, tuning, {DeviceType::cuda, gpu_.index});
    for (BackendRefusal& refusal : planned.refusals) refusals->push_back({c, std::move(refusal)});
    std::list<RunnableMatmul> out;  // stay where they are: the calls refer to them
    for (PlannedMatmul& one : planned.plans) {
      out.emplace_back(std::move(one), bench_.dependent_launch);
    }
    return out;
  }

  [[nodiscard]] MatmulRow row_of(MatmulPart part, const MatmulCase& c, const PlannedMatmul& made,
                                 const Repetition& repeated) const {
    MatmulRow row;
    row.part = part;
    row.problem = c;
    row.backend = made.plan.backend();
    row.algorithm = made.algorithm;
    row.tuning = made.tuning;
    row.is_chosen = made.is_chosen;
    row.is_tuned_choice = made.is_tuned_choice;
    row.ceiling_rate = ceiling_rate_;
    row.sets = repeated.sets;
    row.launches = repeated.launches;
    return row;
  }

  const MatmulBench& bench_;
  Gpu gpu_;
  GraphTimer timer_;
  MatmulSample sample_;
  double ceiling_rate_ = 0;
};

}  // namespace

void bench_matmul(const MatmulBench& bench) {
  GpuBench(bench).run();
}

}  // namespace rowscale::cli::gpu
