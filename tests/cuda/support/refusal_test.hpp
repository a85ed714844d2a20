// Of tests of what is refused: a lane whose outputs must stay as they were.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "rowscale/status.hpp"
#include "tests/cuda/support/device.hpp"
#include "tests/cuda/support/lane.hpp"

namespace rowscale::test {

class RefusalTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped()) lane_ = std::make_unique<Lane>(1 << 20);
  }

  // The message holds `part`, nothing was written, nothing is left behind.
  void expect_refused(const Status& status, StatusCode code, const std::string& part) {
    EXPECT_EQ(to_string(status.code()), std::string(to_string(code))) << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos)
        << "expected '" << part << "' in: " << status.message();
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    lane_->download();
    lane_->synchronize();
    const auto difference = lane_->difference();
    EXPECT_FALSE(difference) << difference->text;
  }

  std::unique_ptr<Lane> lane_;
};

}  // namespace rowscale::test
