// A GPU's memory for the cases of tests/support/matmul_cases.hpp.
#pragma once

#include <memory>

#include "rowscale/exec.hpp"
#include "tests/cuda/support/device.hpp"
#include "tests/support/matmul_cases.hpp"

namespace rowscale::test {

// Work runs in the stream; the memory uses it for its copies and waits for it before it reads.
std::unique_ptr<MatmulMemory> gpu_memory(const Stream& stream);

// A stream, memory and exec of their own.
class MatmulGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    stream_ = std::make_unique<Stream>();
    memory_ = gpu_memory(*stream_);
    exec_.stream = stream_->get();
  }

  // The last case's memory goes before the next one's comes.
  testing::AssertionResult is_right(const MatmulCase& c) {
    memory_ = gpu_memory(*stream_);
    return matmul_is_right(c, memory_.get(), exec_);
  }

  std::unique_ptr<Stream> stream_;
  std::unique_ptr<MatmulMemory> memory_;
  Exec exec_;
};

}  // namespace rowscale::test
