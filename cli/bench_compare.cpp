#include "bench_compare.hpp"

#include "bench_timing.hpp"

namespace rowscale::cli {

std::vector<BenchRow> time_beside_copy(const std::function<void()>& copy,
                                       const std::vector<Contender>& contenders, int rounds) {
  std::vector<std::function<void()>> actions;
  actions.reserve(2 * contenders.size());
  for (const Contender& contender : contenders) {
    actions.push_back(copy);
    actions.push_back(contender.run);
  }
  const RoundTimes times = time_rounds(actions, rounds);
  std::vector<BenchRow> rows;
  for (size_t i = 0; i < contenders.size(); ++i) {
    BenchRow row = contenders[i].row;
    row.copy_seconds = median(times[2 * i]);
    row.seconds = median(times[2 * i + 1]);
    row.share = median_ratio(times[2 * i], times[2 * i + 1]);
    rows.push_back(row);
  }
  return rows;
}

std::vector<BenchRow> time_beside_first(const std::vector<Contender>& contenders, int rounds) {
  std::vector<std::function<void()>> actions;
  actions.reserve(contenders.size());
  for (const Contender& contender : contenders) actions.push_back(contender.run);
  const RoundTimes times = time_rounds(actions, rounds);
  std::vector<BenchRow> rows;
  for (size_t i = 0; i < contenders.size(); ++i) {
    BenchRow row = contenders[i].row;
    row.seconds = median(times[i]);
    row.relative_to_normal = median_ratio(times[i], times[0]);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace rowscale::cli
