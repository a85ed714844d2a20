// Linear layers on a GPU: the cases of the CPU against fp64, forced backends with padded sizes,
// merged weights against their shards, graphs.
#include "rowscale/linear.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cuda/support/matmul_memory.hpp"
#include "tests/support/guarded_buffer.hpp"
#include "tests/support/linear_cases.hpp"

namespace rowscale::test {
namespace {

class LinearGpu : public MatmulGpuTest {
 protected:
  testing::AssertionResult is_right_layer(const LinearCase& c) {
    memory_ = gpu_memory(*stream_);
    return linear_is_right(c, memory_.get(), exec_);
  }
};

TEST_F(LinearGpu, EveryKindOfWeightAndInput) {
  for (const LinearCase& c : linear_cases()) {
    ASSERT_TRUE(is_right_layer(c)) << "case " << c.seed;
  }
}

// Sizes that cuBLASLt refuses are padded for it: rows for the block scales, columns for all.
TEST_F(LinearGpu, PaddedForABackend) {
  for (Granularity weights :
       {Granularity::per_channel, Granularity::per_tensor, Granularity::per_block}) {
    for (int64_t m : {1, 66, 67, 130}) {
      LinearCase c;
      c.weights = weights;
      c.shards = {200};
      c.k = 390;
      c.m = m;
      c.out = DType::bf16;
      c.has_bias = m == 67;
      c.gap_out = m == 130 ? 3 : 0;
      ASSERT_TRUE(is_right_layer(c)) << m;
      if (weights == Granularity::per_tensor) {
        c.activations = ActivationScales::given;
        ASSERT_TRUE(is_right_layer(c)) << m;
      }
    }
  }
}

// With batches that do not matter, a merged weight gives the bits of its shards.
TEST_F(LinearGpu, AMergedWeightGivesTheBitsOfItsShards) {
  for (Granularity weights :
       {Granularity::per_tensor, Granularity::per_channel, Granularity::per_block}) {
    LinearCase c;
    c.weights = weights;
    c.shards = {48, 80, 200, 128};
    c.k = 300;
    c.m = 9;
    c.has_bias = true;
    c.matmul.batch_invariance = BatchInvariance::on;
    memory_ = gpu_memory(*stream_);
    LinearCall call(c, memory_.get(), exec_);
    ASSERT_TRUE(call.make().ok());
    ASSERT_TRUE(call.run().ok());
    const std::vector<std::byte> merged = call.result();
    int64_t first = 0;
    for (size_t i = 0; i < c.shards.size(); ++i) {
      ASSERT_TRUE(call.make(i, i + 1).ok());
      ASSERT_TRUE(call.run().ok());
      std::vector<std::byte> want;
      for (int64_t row = 0; row < c.m; ++row) {
        const auto begin = merged.begin() + (row * 456 + first) * 4;
        want.insert(want.end(), begin, begin + c.shards[i] * 4);
      }
      EXPECT_TRUE(same_bytes(call.result(), want)) << "shard " << i;
      first += c.shards[i];
    }
  }
}

// Prepared, a layer runs in a capture; the graph gives the call's bits, each time.
TEST_F(LinearGpu, RunsInAGraph) {
  for (Granularity weights : {Granularity::per_channel, Granularity::per_block}) {
    for (int64_t k : {256, 390}) {
      LinearCase c;
      c.weights = weights;
      c.shards = {200, 128};
      c.k = k;
      c.m = 70;
      c.has_bias = true;
      memory_ = gpu_memory(*stream_);
      LinearCall call(c, memory_.get(), exec_);
      ASSERT_TRUE(call.make().ok());
      ASSERT_TRUE(call.run().ok());
      const std::vector<std::byte> first = call.result();
      Exec exec = exec_;
      ASSERT_TRUE(call.workspace(&exec).ok());
      stream_->synchronize();
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t ready = nullptr;
      check_cuda(cudaStreamBeginCapture(stream_->get(), cudaStreamCaptureModeThreadLocal),
                 "capture");
      const Status status = call.layer().run(call.x(), call.bias(), call.out(), exec);
      check_cuda(cudaStreamEndCapture(stream_->get(), &graph), "end of the capture");
      ASSERT_TRUE(status.ok()) << status.message();
      check_cuda(cudaGraphInstantiate(&ready, graph, 0), "instantiate");
      for (int repeat = 0; repeat < 3; ++repeat) {
        check_cuda(cudaGraphLaunch(ready, stream_->get()), "launch");
        EXPECT_TRUE(same_bytes(call.result(), first));
      }
      check_cuda(cudaGraphExecDestroy(ready), "destroy");
      check_cuda(cudaGraphDestroy(graph), "destroy");
    }
  }
}

}  // namespace
}  // namespace rowscale::test
