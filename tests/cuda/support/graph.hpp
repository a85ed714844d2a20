// What was enqueued in a stream, to be launched again and again.
#pragma once

#include <cuda_runtime_api.h>

#include <set>
#include <vector>

#include "rowscale/status.hpp"
#include "tests/cuda/support/device.hpp"

namespace rowscale::test {

// What was enqueued in a stream instead of running there.
class Capture {
 public:
  // enqueue(): calls in `stream`. Global: in this thread no call that could wait is allowed.
  template <class Enqueue>
  Capture(cudaStream_t stream, Enqueue&& enqueue) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin of a capture");
    status_ = enqueue();
    check_cuda(cudaStreamEndCapture(stream, &graph_), "end of a capture");
  }
  ~Capture() { cudaGraphDestroy(graph_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] cudaGraph_t get() const { return graph_; }

  // The kernels that it launches, each an address of its own.
  [[nodiscard]] std::set<const void*> kernels() const {
    size_t count = 0;
    check_cuda(cudaGraphGetNodes(graph_, nullptr, &count), "cudaGraphGetNodes");
    std::vector<cudaGraphNode_t> nodes(count);
    check_cuda(cudaGraphGetNodes(graph_, nodes.data(), &count), "cudaGraphGetNodes");
    std::set<const void*> functions;
    for (cudaGraphNode_t node : nodes) {
      cudaKernelNodeParams launch = {};
      check_cuda(cudaGraphKernelNodeGetParams(node, &launch), "cudaGraphKernelNodeGetParams");
      functions.insert(launch.func);
    }
    return functions;
  }

 private:
  cudaGraph_t graph_ = nullptr;
  Status status_;
};

// A graph of what was enqueued in a stream.
class Graph {
 public:
  template <class Enqueue>
  Graph(cudaStream_t stream, Enqueue&& enqueue) {
    const Capture capture(stream, enqueue);
    status_ = capture.status();
    check_cuda(cudaGraphInstantiate(&exec_, capture.get(), 0), "cudaGraphInstantiate");
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
