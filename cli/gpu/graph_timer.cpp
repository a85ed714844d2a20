#include "gpu/graph_timer.hpp"

#include <algorithm>
#include <memory>

#include "gpu/ceiling_kernels.hpp"

namespace rowscale::cli::gpu {
namespace {

constexpr int64_t kMostLaunches = 200;
constexpr int64_t kTrafficOfReplay = int64_t{8} << 30;  // about 2 ms on a fast GPU
constexpr int64_t kColdFactor = 4;                      // times the size of the L2 cache
constexpr int kWarmUpRounds = 2;

struct DestroyGraph {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using Graph = std::unique_ptr<CUgraphExec_st, DestroyGraph>;

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event(Event&&) = delete;
  Event& operator=(Event&&) = delete;
  void record(cudaStream_t stream) const {
    check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  [[nodiscard]] double seconds_since(const Event& start) const {
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

Graph capture(const GpuContender& contender, cudaStream_t stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int i = 0; i < contender.repetition.launches; ++i) {
    contender.launch(i % contender.repetition.sets, stream);
  }
  cudaGraph_t recorded = nullptr;
  check(cudaStreamEndCapture(stream, &recorded), "cudaStreamEndCapture");
  cudaGraphExec_t graph = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&graph, recorded, 0);
  cudaGraphDestroy(recorded);
  check(error, "cudaGraphInstantiate");
  Graph owned(graph);
  check(cudaGraphUpload(graph, stream), "cudaGraphUpload");
  return owned;
}

}  // namespace

Repetition repetition(const Gpu& gpu, int64_t bytes) {
  const int64_t cold_sets = kColdFactor * gpu.l2_bytes / std::max<int64_t>(bytes, 1) + 1;
  if (cold_sets >= kMostLaunches) return {kMostLaunches, kMostLaunches};
  const int64_t launches = std::min(kMostLaunches, kTrafficOfReplay / bytes + 1);
  return {static_cast<int>(cold_sets), static_cast<int>(std::max(launches, cold_sets))};
}

GraphTimer::GraphTimer(const Gpu& gpu) : cold_(kColdFactor * gpu.l2_bytes), sink_(16) {
  check(cudaMemset(cold_.data(), 0, static_cast<size_t>(cold_.bytes())), "cudaMemset");
}

void GraphTimer::empty_cache() {
  check(launch_read(cold_.data(), cold_.bytes(), sink_.data(), stream_.get()), "launch_read");
}

std::vector<std::vector<double>> GraphTimer::time(const std::vector<GpuContender>& contenders,
                                                  int rounds) {
  std::vector<Graph> graphs;
  graphs.reserve(contenders.size());
  for (const GpuContender& contender : contenders) {
    contender.launch(0, stream_.get());  // loads the kernel
    stream_.synchronize();
    graphs.push_back(capture(contender, stream_.get()));
  }
  const Event start;
  const Event end;
  std::vector<std::vector<double>> times(contenders.size());
  for (int round = -kWarmUpRounds; round < rounds; ++round) {
    for (size_t k = 0; k < contenders.size(); ++k) {
      const size_t i = (k + static_cast<size_t>(round + kWarmUpRounds)) % contenders.size();
      // The device is busy with the cache while the replay is queued, so no gap is measured.
      empty_cache();
      start.record(stream_.get());
      check(cudaGraphLaunch(graphs[i].get(), stream_.get()), "cudaGraphLaunch");
      end.record(stream_.get());
      const double seconds = end.seconds_since(start);
      if (round >= 0) times[i].push_back(seconds / contenders[i].repetition.launches);
    }
  }
  return times;
}

}  // namespace rowscale::cli::gpu
