#include "gpu/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "bench_timing.hpp"
#include "failure.hpp"

namespace rowscale::cli::gpu {

void warm_up(const Gpu& gpu, GraphTimer* timer) {
  const TensorSet from(1, gpu.l2_bytes);
  const TensorSet to(1, gpu.l2_bytes);
  timer->time({{[&](int, cudaStream_t stream) {
                  check(cudaMemcpyAsync(to.data(0), from.data(0), static_cast<size_t>(gpu.l2_bytes),
                                        cudaMemcpyDeviceToDevice, stream),
                        "cudaMemcpyAsync");
                },
                {1, 200}}},
              50);
}

bool runs(const std::string& name, const Status& status) {
  if (status.code() == StatusCode::unsupported) {
    fmt::print(stderr, "left out: {}: {}\n", name, status.message());
    return false;
  }
  require(status);
  check(cudaDeviceSynchronize(), name);
  return true;
}

std::vector<Row> time_beside_copies(const Copies& copies, const std::vector<Measured>& measured,
                                    int rounds, GraphTimer* timer) {
  // Nothing that is timed depends on the values that the copies leave behind.
  std::vector<GpuContender> contenders = copies.kernels;
  contenders.push_back(copies.memcpy);
  const size_t first = contenders.size();
  for (const Measured& one : measured) contenders.push_back(one.contender);
  const auto times = timer->time(contenders, rounds);

  const auto faster = [](const auto& a, const auto& b) { return median(a) < median(b); };
  const auto ceiling_end = times.begin() + std::ssize(copies.kernels);
  const std::vector<double>& ceiling = *std::min_element(times.begin(), ceiling_end, faster);
  std::vector<Row> rows;
  rows.reserve(measured.size());
  size_t normal = first;
  for (size_t i = 0; i < measured.size(); ++i) {
    Row row = measured[i].row;
    const std::vector<double>& ours = times[first + i];
    if (row.pattern == Pattern::normal) normal = first + i;  // the first of its recipe
    row.seconds = median(ours);
    row.ceiling_rate = copies.kernel_bytes / median(ceiling);
    row.share = median_ratio(ceiling, ours) * row.traffic_bytes / copies.kernel_bytes;
    row.memcpy_rate = copies.memcpy_bytes / median(times[first - 1]);
    row.relative_to_normal = median_ratio(ours, times[normal]);
    row.carries_ceiling = i == 0;
    rows.push_back(row);
  }
  return rows;
}

void measure_shapes(const std::string& operation, const Options& options,
                    const std::vector<Shape>& shapes, const MeasureShape& measure) {
  Gpu gpu = open_gpu();
  GraphTimer timer(gpu);
  warm_up(gpu, &timer);
  read_clock(&gpu);
  Report report(operation, gpu, options.rounds);
  report.print_heading();
  bool any = false;
  for (const DType dtype : options.dtypes) {
    std::vector<Row> rows;
    for (size_t i = 0; i < shapes.size(); ++i) {
      for (const Row& row : measure(gpu, dtype, shapes[i], &timer)) rows.push_back(row);
      const bool last = i + 1 == shapes.size() || shapes[i + 1].hidden != shapes[i].hidden;
      if (!last) continue;
      any = any || !rows.empty();
      if (!rows.empty()) report.add_and_print(rows);
      std::fflush(stdout);
      rows.clear();
    }
  }
  if (!any) throw Failure(ExitCode::unsupported, "no kernel for any of the recipes");
  if (!options.csv.empty()) report.write_csv(options.csv);
  if (!options.svg.empty()) report.write_svg(options.svg);
}

}  // namespace rowscale::cli::gpu
