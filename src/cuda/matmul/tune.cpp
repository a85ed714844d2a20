// The fastest of several ways, measured: every way runs the problem on memory of this file's own,
// over and over from a graph, on operands that are not in the cache. Codes are random, not zeros,
// with which an FP8 product is faster.
//
// Captures. A plan's make() is given no stream, so that "the stream that is current for the thread"
// is the legacy default stream or the thread's own default stream: while one of them is captured
// (or a blocking stream, which would pull the legacy one in) the call is refused. A capture of any
// other stream is not disturbed: work here goes into a stream of its own, and memory is taken in
// the relaxed mode of captures, in which that is allowed.
#include "matmul/tune.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/check.hpp"
#include "cuda/context.hpp"
#include "cuda/devices.hpp"

namespace rowscale::product {
namespace {

using cuda::status_of;

constexpr int kRounds = 7;              // the median of these
constexpr double kRoundSeconds = 2e-3;  // about, of one way
constexpr int kMostRuns = 256;          // in a round
constexpr int kMostSets = 16;
constexpr int64_t kPatternBytes = int64_t{1} << 20;

struct Freer {
  void operator()(void* memory) const { cudaFree(memory); }
};
using Memory = std::unique_ptr<void, Freer>;

Status allocate(int64_t bytes, Memory* memory) {
  void* data = nullptr;
  Status status = status_of(cudaMalloc(&data, static_cast<size_t>(std::max<int64_t>(bytes, 1))),
                            "tuning: cudaMalloc");
  memory->reset(data);
  return status;
}

// Relaxed for this thread: see the file's head.
class RelaxedCaptures {
 public:
  RelaxedCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCaptures(const RelaxedCaptures&) = delete;
  RelaxedCaptures& operator=(const RelaxedCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

Status check_not_capturing() {
  for (cudaStream_t stream : {cudaStreamLegacy, cudaStreamPerThread}) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    const cudaError_t error = cudaStreamIsCapturing(stream, &capture);
    if (error == cudaSuccess && capture == cudaStreamCaptureStatusNone) continue;
    if (error == cudaSuccess || error == cudaErrorStreamCaptureImplicit) {
      cudaGetLastError();
      return {StatusCode::unsupported,
              "options.tuning: expected no capture in the thread's default stream, got measured "
              "while one is made"};
    }
    return status_of(error, "cudaStreamIsCapturing");
  }
  return {};
}

// A stream and two events, of the current device.
class Clock {
 public:
  Clock() = default;
  ~Clock() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  Status make() {
    for (const cudaError_t error : {cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                                    cudaEventCreate(&begin_), cudaEventCreate(&end_)}) {
      ROWSCALE_RETURN_IF_ERROR(status_of(error, "tuning: a stream and its events"));
    }
    return {};
  }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  // Seconds that the work takes.
  template <class Enqueue>
  Status time(Enqueue&& enqueue, double* seconds) {
    float milliseconds = 0.0F;
    ROWSCALE_RETURN_IF_ERROR(status_of(cudaEventRecord(begin_, stream_), "cudaEventRecord"));
    ROWSCALE_RETURN_IF_ERROR(enqueue());
    ROWSCALE_RETURN_IF_ERROR(status_of(cudaEventRecord(end_, stream_), "cudaEventRecord"));
    ROWSCALE_RETURN_IF_ERROR(status_of(cudaEventSynchronize(end_), "tuning"));
    ROWSCALE_RETURN_IF_ERROR(
        status_of(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime"));
    *seconds = milliseconds * 1e-3;
    return {};
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

// Runs of one way as a graph.
class Round {
 public:
  Round() = default;
  ~Round() {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  template <class Enqueue>
  Status make(cudaStream_t stream, Enqueue&& enqueue) {
    ROWSCALE_RETURN_IF_ERROR(status_of(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
                                       "cudaStreamBeginCapture"));
    Status status = enqueue();
    const cudaError_t end = cudaStreamEndCapture(stream, &graph_);
    if (!status.ok()) return status;
    ROWSCALE_RETURN_IF_ERROR(status_of(end, "cudaStreamEndCapture"));
    return status_of(cudaGraphInstantiate(&exec_, graph_, 0), "cudaGraphInstantiate");
  }
  [[nodiscard]] Status launch(cudaStream_t stream) const {
    return status_of(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

// Bytes that repeat: of codes random finite ones, of scales ones.
using Pattern = std::vector<uint8_t>;

Pattern random_codes(DType dtype) {
  Pattern codes(static_cast<size_t>(kPatternBytes) - 1);  // odd, so that rows differ
  const uint8_t largest = dtype == DType::e4m3 ? 0x7E : 0x7B;
  uint64_t state = 0x9E3779B97F4A7C15U;
  for (uint8_t& code : codes) {
    do {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      code = static_cast<uint8_t>(state >> 32);
    } while ((code & 0x7FU) > largest);
  }
  return codes;
}

Pattern ones(DType dtype) {
  constexpr uint8_t kOneAsExponent = 127;
  if (dtype != DType::f32) return {kOneAsExponent};
  const float one = 1.0F;
  Pattern bytes(sizeof one);
  std::memcpy(bytes.data(), &one, sizeof one);
  return bytes;
}

// Copies the pattern, then what is there behind itself.
Status fill(void* data, int64_t bytes, const Pattern& pattern, cudaStream_t stream) {
  auto* to = static_cast<std::byte*>(data);
  auto there = std::min(bytes, static_cast<int64_t>(pattern.size()));
  ROWSCALE_RETURN_IF_ERROR(status_of(cudaMemcpyAsync(to, pattern.data(), static_cast<size_t>(there),
                                                     cudaMemcpyHostToDevice, stream),
                                     "tuning: cudaMemcpyAsync"));
  while (there < bytes) {
    const int64_t more = std::min(there, bytes - there);
    ROWSCALE_RETURN_IF_ERROR(status_of(cudaMemcpyAsync(to + there, to, static_cast<size_t>(more),
                                                       cudaMemcpyDeviceToDevice, stream),
                                       "tuning: cudaMemcpyAsync"));
    there += more;
  }
  // The pattern may go.
  return status_of(cudaStreamSynchronize(stream), "tuning: cudaStreamSynchronize");
}

// The operands of one run.
class Set {
 public:
  Status make(const Problem& p, cudaStream_t stream) {
    const int64_t batches_a = p.grouping == Grouping::masked ? p.experts : 1;
    ROWSCALE_RETURN_IF_ERROR(make_rows(p.a, batches_a, p.m, p.k, p.device, &tensors_.a));
    ROWSCALE_RETURN_IF_ERROR(make_rows(p.b, p.experts, p.n, p.k, p.device, &tensors_.b));
    ROWSCALE_RETURN_IF_ERROR(make_rows(p.out, batches_a, p.m, p.n, p.device, &tensors_.out));
    for (const auto& [memory, operand] : {std::pair{0, &p.a}, std::pair{1, &p.b}}) {
      ROWSCALE_RETURN_IF_ERROR(fill(memory_[static_cast<size_t>(memory)].get(),
                                    sizes_[static_cast<size_t>(memory)],
                                    random_codes(operand->dtype), stream));
    }
    if (p.grouping != Grouping::masked) drop_batches(&tensors_.a), drop_batches(&tensors_.out);
    if (p.grouping == Grouping::none) drop_batches(&tensors_.b);
    ROWSCALE_RETURN_IF_ERROR(make_scales(tensors_.a, p.recipe_a, stream, &tensors_.scale_a));
    ROWSCALE_RETURN_IF_ERROR(make_scales(tensors_.b, p.recipe_b, stream, &tensors_.scale_b));
    if (p.has_bias) {
      const int64_t bytes = p.n * element_size(p.bias);
      void* data = nullptr;
      ROWSCALE_RETURN_IF_ERROR(take(bytes, &data));
      ROWSCALE_RETURN_IF_ERROR(fill(data, bytes, Pattern(1, 0), stream));
      tensors_.bias = TensorView::contiguous(data, p.bias, {p.n}, p.device);
    }
    return make_experts(p, stream);
  }
  [[nodiscard]] const MatmulTensors& tensors() const { return tensors_; }

 private:
  Status take(int64_t bytes, void** data) {
    Memory memory;
    ROWSCALE_RETURN_IF_ERROR(allocate(bytes, &memory));
    *data = memory.get();
    memory_.push_back(std::move(memory));
    sizes_.push_back(bytes);
    return {};
  }

  // [batches, rows, columns] with the strides of the problem, which may be negative.
  Status make_rows(const Operand& operand, int64_t batches, int64_t rows, int64_t columns,
                   Device device, TensorView* view) {
    int64_t low = 0;
    int64_t high = columns;
    for (const int64_t reach :
         {(batches - 1) * operand.batch_stride, (rows - 1) * operand.row_stride}) {
      (reach < 0 ? low : high) += reach;
    }
    const int64_t size = element_size(operand.dtype);
    void* data = nullptr;
    ROWSCALE_RETURN_IF_ERROR(take((high - low) * size, &data));
    *view = TensorView::strided(static_cast<std::byte*>(data) - low * size, operand.dtype,
                                {batches, rows, columns},
                                {operand.batch_stride, operand.row_stride, 1}, device);
    return {};
  }
  static void drop_batches(TensorView* view) {
    --view->rank;
    std::copy(view->shape + 1, view->shape + 3, view->shape);
    std::copy(view->strides + 1, view->strides + 3, view->strides);
  }

  Status make_scales(const TensorView& codes, const Recipe& recipe, cudaStream_t stream,
                     TensorView* view) {
    ScaleSpec spec;
    ROWSCALE_RETURN_IF_ERROR(scale_spec(codes, recipe, &spec));
    const int64_t bytes = spec.allocation * element_size(spec.dtype);
    void* data = nullptr;
    ROWSCALE_RETURN_IF_ERROR(take(bytes, &data));
    *view = spec.view(data, codes.device);
    return fill(data, bytes, ones(spec.dtype), stream);
  }

  // As many rows for each expert.
  Status make_experts(const Problem& p, cudaStream_t stream) {
    if (p.grouping == Grouping::none) return {};
    const bool is_sorted = p.grouping == Grouping::sorted;
    std::vector<int32_t> numbers(static_cast<size_t>(p.experts + (is_sorted ? 1 : 0)));
    for (size_t e = 0; e < numbers.size(); ++e) {
      const int64_t rows = is_sorted ? p.m * static_cast<int64_t>(e) / p.experts : p.m;
      numbers[e] = static_cast<int32_t>(rows);
    }
    Pattern bytes(numbers.size() * sizeof(int32_t));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    void* data = nullptr;
    ROWSCALE_RETURN_IF_ERROR(take(static_cast<int64_t>(bytes.size()), &data));
    ROWSCALE_RETURN_IF_ERROR(fill(data, static_cast<int64_t>(bytes.size()), bytes, stream));
    if (is_sorted) {
      tensors_.expert_offsets = TensorView::contiguous(
          data, DType::i32, {static_cast<int64_t>(numbers.size())}, p.device);
    } else {
      tensors_.a = tensors_.a.with_row_counts(static_cast<const int32_t*>(data));
    }
    return {};
  }

  std::vector<Memory> memory_;  // a, b, out first
  std::vector<int64_t> sizes_;
  MatmulTensors tensors_;
};

// Sets enough that the operands of a run have left the cache when their turn comes again.
int sets_for(const Problem& p, const cuda::DeviceFacts& facts) {
  const int64_t bytes = p.experts * p.n * p.k + p.m * p.k + 1;
  const int64_t sets = 2 * facts.l2_bytes / bytes + 1;
  return static_cast<int>(std::min<int64_t>(sets, kMostSets));
}

class Measurement {
 public:
  Status make(const Problem& p, const std::vector<std::shared_ptr<const Way>>& ways) {
    cuda::DeviceFacts facts;
    ROWSCALE_RETURN_IF_ERROR(cuda::find_device(p.device.index, &facts));
    ROWSCALE_RETURN_IF_ERROR(clock_.make());
    size_t workspace = 0;
    for (const auto& way : ways) workspace = std::max(workspace, way->workspace_bytes());
    ROWSCALE_RETURN_IF_ERROR(allocate(static_cast<int64_t>(workspace), &workspace_));
    exec_.stream = clock_.stream();
    exec_.workspace = {workspace_.get(), workspace};
    const int sets = sets_for(p, facts);
    for (int i = 0; i < sets; ++i) {
      auto set = std::make_unique<Set>();
      const Status status = set->make(p, clock_.stream());
      // Where memory ends, fewer sets do.
      if (!status.ok() && i > 0) break;
      ROWSCALE_RETURN_IF_ERROR(status);
      sets_.push_back(std::move(set));
    }
    return {};
  }

  // Medians, one a way, in seconds.
  Status run(const std::vector<std::shared_ptr<const Way>>& ways, std::vector<double>* medians) {
    std::vector<std::unique_ptr<Round>> rounds;
    std::vector<int> runs;
    rounds.reserve(ways.size());
    runs.reserve(ways.size());
    for (const auto& way : ways) {
      // The first run loads code; the second tells how many fill a round.
      double seconds = 0.0;
      ROWSCALE_RETURN_IF_ERROR(run_each(*way, 1));
      ROWSCALE_RETURN_IF_ERROR(clock_.time([&] { return run_each(*way, 1); }, &seconds));
      const double each = std::max(seconds, 1e-7) / static_cast<double>(sets_.size());
      const int wanted = static_cast<int>(std::min(kRoundSeconds / each, double{kMostRuns}));
      const int turns = std::max(wanted / static_cast<int>(sets_.size()), 1);
      runs.push_back(turns * static_cast<int>(sets_.size()));
      auto round = std::make_unique<Round>();
      ROWSCALE_RETURN_IF_ERROR(round->make(clock_.stream(), [&] { return run_each(*way, turns); }));
      ROWSCALE_RETURN_IF_ERROR(round->launch(clock_.stream()));
      rounds.push_back(std::move(round));
    }
    // In turn, so that a change of the clock rate meets all alike.
    std::vector<std::array<double, kRounds>> times(ways.size());
    for (int i = 0; i < kRounds; ++i) {
      for (size_t w = 0; w < ways.size(); ++w) {
        double seconds = 0.0;
        ROWSCALE_RETURN_IF_ERROR(
            clock_.time([&] { return rounds[w]->launch(clock_.stream()); }, &seconds));
        times[w][static_cast<size_t>(i)] = seconds / runs[w];
      }
    }
    for (auto& of_way : times) {
      std::sort(of_way.begin(), of_way.end());
      medians->push_back(of_way[kRounds / 2]);
    }
    return {};
  }

 private:
  // `turns` times with each set.
  Status run_each(const Way& way, int turns) {
    for (int turn = 0; turn < turns; ++turn) {
      for (const auto& set : sets_) ROWSCALE_RETURN_IF_ERROR(way.run(set->tensors(), exec_));
    }
    return {};
  }

  Memory workspace_;
  std::vector<std::unique_ptr<Set>> sets_;
  Clock clock_;
  Exec exec_;
};

struct Kept {
  Problem problem;
  MatmulOptions options;
  std::shared_ptr<const Way> way;
};

Status measure(const Problem& problem, const std::vector<std::shared_ptr<const Way>>& ways,
               std::shared_ptr<const Way>* way) {
  const RelaxedCaptures relaxed;
  const cuda::ScopedDevice device(problem.device.index);
  if (!device.status().ok()) return device.status();
  ROWSCALE_RETURN_IF_ERROR(check_not_capturing());
  Measurement measurement;
  std::vector<double> medians;
  ROWSCALE_RETURN_IF_ERROR(measurement.make(problem, ways));
  ROWSCALE_RETURN_IF_ERROR(measurement.run(ways, &medians));
  *way =
      ways[static_cast<size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin())];
  return {};
}

}  // namespace

std::shared_ptr<const Way> fastest(const Problem& problem, const MatmulOptions& options,
                                   const std::vector<std::shared_ptr<const Way>>& ways,
                                   Status* status) {
  // Held while measuring, too: two measurements at once would disturb each other.
  static std::mutex mutex;
  static std::vector<Kept> kept;
  *status = {};
  // Nothing to measure: a CPU has one way, an empty product none.
  const bool is_empty = problem.m == 0 || problem.n == 0;
  if (ways.size() == 1 || problem.device.type != DeviceType::cuda || is_empty) return ways.front();
  const std::lock_guard<std::mutex> lock(mutex);
  for (const Kept& one : kept) {
    if (one.problem != problem || one.options != options) continue;
    // The plan finds its backend by the way's address: that of an equal one in `ways`.
    for (const auto& way : ways) {
      if (way->text() == one.way->text() && way->workspace_bytes() == one.way->workspace_bytes()) {
        return way;
      }
    }
  }
  std::shared_ptr<const Way> way;
  *status = measure(problem, ways, &way);
  if (!status->ok()) return nullptr;
  kept.push_back({problem, options, way});
  return way;
}

}  // namespace rowscale::product
