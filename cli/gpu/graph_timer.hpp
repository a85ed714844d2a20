// Times kernels as an inference engine runs them: many launches in one CUDA graph, the memory cold.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "gpu/device.hpp"

namespace rowscale::cli::gpu {

// How often a call is launched in one replay, and on how many sets of tensors in turn.
struct Repetition {
  int sets = 1;
  int launches = 1;
};

// A call finds none of its bytes in the L2 cache: the cache is emptied before each replay, and the
// sets either come once in it or together are four times as large as the cache.
Repetition repetition(const Gpu& gpu, int64_t bytes);  // of one set, inputs and outputs

// One side of a comparison.
struct GpuContender {
  std::function<void(int set, cudaStream_t stream)> launch;
  Repetition repetition;
};

class GraphTimer {
 public:
  explicit GraphTimer(const Gpu& gpu);

  // Seconds of a launch: times[contender][round], as the events around a replay tell. In every
  // round each contender's graph is replayed once, and each round starts with another one; two
  // rounds more run first and are dropped.
  std::vector<std::vector<double>> time(const std::vector<GpuContender>& contenders, int rounds);

 private:
  void empty_cache();

  Stream stream_;
  DeviceBuffer cold_;  // read to empty the cache; zeros
  DeviceBuffer sink_;
};

}  // namespace rowscale::cli::gpu
