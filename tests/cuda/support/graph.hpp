// What was enqueued in a stream, to be launched again and again.
#pragma once

#include <cuda_runtime_api.h>

#include "rowscale/status.hpp"
#include "tests/cuda/support/device.hpp"

namespace rowscale::test {

// A graph of what was enqueued in a stream.
class Graph {
 public:
  // enqueue(): calls in `stream`. Global: in this thread no call that could wait is allowed.
  template <class Enqueue>
  Graph(cudaStream_t stream, Enqueue&& enqueue) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin of a capture");
    status_ = enqueue();
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &graph), "end of a capture");
    const cudaError_t error = cudaGraphInstantiate(&exec_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(error, "cudaGraphInstantiate");
  }
  ~Graph() { cudaGraphExecDestroy(exec_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  [[nodiscard]] const Status& status() const { return status_; }
  void launch(cudaStream_t stream) const {
    check_cuda(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraphExec_t exec_ = nullptr;
  Status status_;
};

}  // namespace rowscale::test
