// Timing on a machine that others use too: everything that is compared runs once in every round,
// and what is reported are medians over the rounds.
#pragma once

#include <barrier>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace rowscale::cli {

// times[a][r]: seconds that action a took in round r.
using RoundTimes = std::vector<std::vector<double>>;

// One more round runs first and is dropped: it starts threads and warms page tables.
RoundTimes time_rounds(const std::vector<std::function<void()>>& actions, int rounds);

double median(std::vector<double> values);

// The median over the rounds of times[a] / times[b], each pair of the same round.
double median_ratio(const std::vector<double>& a, const std::vector<double>& b);

// memcpy by several threads, each with its share: what quantize is compared with.
class ParallelCopy {
 public:
  explicit ParallelCopy(int threads);  // the caller is one of them
  ~ParallelCopy();
  ParallelCopy(const ParallelCopy&) = delete;
  ParallelCopy& operator=(const ParallelCopy&) = delete;
  void copy(std::byte* to, const std::byte* from, size_t bytes);

 private:
  void work(size_t share);
  void copy_share(size_t index);

  const size_t threads_;
  std::barrier<> start_;
  std::barrier<> finish_;
  std::byte* to_ = nullptr;
  const std::byte* from_ = nullptr;
  size_t bytes_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace rowscale::cli
