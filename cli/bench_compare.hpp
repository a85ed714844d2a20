// Contenders against memcpy, in the same rounds.
#pragma once

#include <functional>
#include <vector>

#include "bench_report.hpp"

namespace rowscale::cli {

// What is measured, and the line that its times go into.
struct Contender {
  BenchRow row;
  std::function<void()> run;
};

// In every round a copy runs just before each contender. Returns the rows with their times.
std::vector<BenchRow> time_beside_copy(const std::function<void()>& copy,
                                       const std::vector<Contender>& contenders, int rounds);

// Returns the rows with their times, and with those relative to the first contender.
std::vector<BenchRow> time_beside_first(const std::vector<Contender>& contenders, int rounds);

}  // namespace rowscale::cli
