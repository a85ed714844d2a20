#include "tests/cuda/support/cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

namespace rowscale::test {
namespace {

// More only wait for the driver.
constexpr int64_t kMostLanes = 16;

Lane& lane_of(int64_t thread) {
  static std::mutex mutex;
  static std::vector<std::unique_ptr<Lane>> lanes(kMostLanes);
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Lane>& lane = lanes[static_cast<size_t>(thread)];
  if (!lane) lane = std::make_unique<Lane>(kLaneBytes);
  return *lane;
}

}  // namespace

void Failures::add(std::string text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (++count_ <= kShown) shown_.push_back(std::move(text));
}

void Failures::stop(std::string text) {
  add(std::move(text));
  stopped_ = true;
}

testing::AssertionResult Failures::result() const {
  if (count_ == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << count_ << (stopped_ ? " cases failed before the device gave up:\n" : " cases failed:\n")
         << fmt::format("{}", fmt::join(shown_, "\n"));
}

void run_cases(int64_t count, const std::function<std::string(Lane&, int64_t)>& run) {
  ASSERT_GT(count, 0);
  testing::Test::RecordProperty("cases", fmt::format("{}", count));
  Failures failures;
  std::atomic<int64_t> next{0};
  const int64_t threads = std::clamp<int64_t>(
      std::min<int64_t>(count / 4, std::thread::hardware_concurrency()), 1, kMostLanes);
  const auto work = [&](int64_t thread) {
    try {
      Lane& lane = lane_of(thread);
      for (int64_t i = next++; i < count && !failures.stopped() && !failures.many(); i = next++) {
        lane.reset();
        if (std::string text = run(lane, i); !text.empty()) failures.add(std::move(text));
      }
    } catch (const std::exception& error) {
      failures.stop(error.what());
    }
  };
  std::vector<std::thread> workers;
  workers.reserve(static_cast<size_t>(threads));
  for (int64_t t = 1; t < threads; ++t) workers.emplace_back(work, t);
  work(0);
  for (std::thread& worker : workers) worker.join();
  EXPECT_TRUE(failures.result());
}

}  // namespace rowscale::test
