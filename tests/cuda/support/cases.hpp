// Many cases over several host threads, each with a lane of its own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "tests/cuda/support/lane.hpp"

namespace rowscale::test {

// Bytes of the image of a usual lane: codes, scales, inputs and rows of a case of 2^20 elements.
inline constexpr int64_t kLaneBytes = int64_t{24} << 20;

// What failed, from any thread; the first few are shown, all are counted.
class Failures {
 public:
  static constexpr int kShown = 4;

  void add(std::string text);
  // After an error of the device nothing more can be said.
  void stop(std::string text);
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] bool many() const { return count_ > 1000; }
  [[nodiscard]] int64_t count() const { return count_; }
  [[nodiscard]] testing::AssertionResult result() const;

 private:
  std::mutex mutex_;
  std::vector<std::string> shown_;
  std::atomic<int64_t> count_{0};
  std::atomic<bool> stopped_{false};
};

// run(lane, i) for i in 0 .. count - 1: empty where the case is right, else what is wrong. Lanes
// are kept from test to test. Fails the test with the first failures; a test without a case fails.
void run_cases(int64_t count, const std::function<std::string(Lane&, int64_t)>& run);

template <class Case, class Run>
void run_all(const std::vector<Case>& cases, Run&& run) {
  run_cases(static_cast<int64_t>(cases.size()),
            [&](Lane& lane, int64_t i) { return run(lane, cases[static_cast<size_t>(i)]); });
}

}  // namespace rowscale::test
