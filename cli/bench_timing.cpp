#include "bench_timing.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace rowscale::cli {

RoundTimes time_rounds(const std::vector<std::function<void()>>& actions, int rounds) {
  using Clock = std::chrono::steady_clock;
  RoundTimes times(actions.size());
  for (int round = -1; round < rounds; ++round) {
    for (size_t a = 0; a < actions.size(); ++a) {
      const Clock::time_point start = Clock::now();
      actions[a]();
      const std::chrono::duration<double> seconds = Clock::now() - start;
      if (round >= 0) times[a].push_back(seconds.count());
    }
  }
  return times;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  ratios.reserve(a.size());
  for (size_t r = 0; r < a.size(); ++r) ratios.push_back(a[r] / b[r]);
  return median(std::move(ratios));
}

ParallelCopy::ParallelCopy(int threads)
    : threads_(static_cast<size_t>(threads)), start_(threads), finish_(threads) {
  try {
    for (size_t i = 1; i < threads_; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (...) {
    // The system gives no more threads: let those that wait go, in place of the missing ones.
    stop_ = true;
    for (size_t i = workers_.size(); i < threads_; ++i) static_cast<void>(start_.arrive());
    for (std::thread& worker : workers_) worker.join();
    throw;
  }
}

void ParallelCopy::work(size_t share) {
  while (true) {
    start_.arrive_and_wait();
    if (stop_) return;
    copy_share(share);
    finish_.arrive_and_wait();
  }
}

ParallelCopy::~ParallelCopy() {
  stop_ = true;
  start_.arrive_and_wait();
  for (std::thread& worker : workers_) worker.join();
}

void ParallelCopy::copy(std::byte* to, const std::byte* from, size_t bytes) {
  to_ = to;
  from_ = from;
  bytes_ = bytes;
  start_.arrive_and_wait();
  copy_share(0);
  finish_.arrive_and_wait();
}

void ParallelCopy::copy_share(size_t index) {
  constexpr size_t kPage = 4096;  // no two threads write to the same page
  const size_t share = (bytes_ / threads_ + kPage) / kPage * kPage;
  const size_t begin = std::min(index * share, bytes_);
  const size_t end = std::min(begin + share, bytes_);
  std::memcpy(to_ + begin, from_ + begin, end - begin);
}

}  // namespace rowscale::cli
