#include "bench_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "charts.hpp"
#include "output.hpp"

namespace rowscale::cli {
namespace {

std::string milliseconds(double seconds) {
  return fmt::format("{:.2f}", seconds * 1e3);
}

std::string thread_text(int threads) {
  return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
}

const char* what_is_total(const std::string& operation) {
  if (operation == "quantize") {
    return "codes and scales too, and the second reading of per_tensor dynamic";
  }
  return operation == "dequantize"
             ? "codes and scales too"
             : "codes, scales, a residual read and written and a stored row too";
}

// The position of `value` in `values`, appended where it is new.
size_t index_of(std::vector<std::string>* values, const std::string& value) {
  const auto it = std::find(values->begin(), values->end(), value);
  if (it != values->end()) return static_cast<size_t>(it - values->begin());
  values->push_back(value);
  return values->size() - 1;
}

}  // namespace

BenchReport::BenchReport(std::string operation, const Problem& problem)
    : operation_(std::move(operation)), problem_(problem), date_(utc_now()) {}

double BenchReport::gigabytes(double seconds) const {
  return static_cast<double>(problem_.float_bytes()) / seconds * 1e-9;
}

std::string BenchReport::shape_text() const {
  return fmt::format("{} [{}, {}], {:.0f} MiB", to_string(problem_.dtype), problem_.rows,
                     problem_.hidden, static_cast<double>(problem_.float_bytes()) / (1 << 20));
}

void BenchReport::print_heading() const {
  const bool reads = operation_ != "dequantize";
  fmt::print(
      "{}\n{}\n{} {}; medians of {} rounds\n\n"
      "{} GB/s: bytes of the {} a second. total GB/s: {}.\n"
      "of memcpy: the time of a memcpy of the {} by as many threads, in the same round, / ours.\n",
      version(), to_string(problem_.machine), operation_, shape_text(), problem_.rounds,
      reads ? "in" : "out", reads ? "input" : "output", what_is_total(operation_),
      reads ? "input" : "output");
}

void BenchReport::add_and_print(const std::vector<BenchRow>& rows) {
  const std::string floats = operation_ != "dequantize" ? "in GB/s" : "out GB/s";
  Table table({{"recipe", false},
               {"target", false},
               {"threads"},
               {"ms"},
               {floats},
               {"total GB/s"},
               {"memcpy GB/s"},
               {"of memcpy"}});
  for (const BenchRow& row : rows) {
    table.add({row.recipe, to_string(row.target), std::to_string(row.threads),
               milliseconds(row.seconds), fmt::format("{:.2f}", gigabytes(row.seconds)),
               fmt::format("{:.2f}", row.traffic_bytes / row.seconds * 1e-9),
               fmt::format("{:.2f}", gigabytes(row.copy_seconds)),
               fmt::format("{:.2f}", row.share)});
    rows_.push_back(row);
  }
  fmt::print("\n{}", table.text());
}

void BenchReport::add_and_print_patterns(const std::vector<BenchRow>& rows) {
  Table table({{"recipe", false},
               {"target", false},
               {"threads"},
               {"data", false},
               {"ms"},
               {"time / normal"}});
  for (const BenchRow& row : rows) {
    table.add({row.recipe, to_string(row.target), std::to_string(row.threads), row.pattern,
               milliseconds(row.seconds), fmt::format("{:.3f}", row.relative_to_normal)});
    rows_.push_back(row);
  }
  fmt::print("\nDoes the time depend on the data? (\"normal again\" shows the noise.)\n{}",
             table.text());
}

void BenchReport::write_csv(const std::string& path) const {
  std::string text = csv_line({"date",
                               "version",
                               "cpu",
                               "processors",
                               "operation",
                               "dtype",
                               "rows",
                               "hidden",
                               "recipe",
                               "target",
                               "threads",
                               "data",
                               "rounds",
                               "ms",
                               "float_gb_per_s",
                               "total_gb_per_s",
                               "memcpy_ms",
                               "memcpy_gb_per_s",
                               "share_of_memcpy",
                               "time_relative_to_normal"});
  const auto measured = [](double value, double shown) {
    return value > 0 ? fmt::format("{:.6g}", shown) : std::string();
  };
  for (const BenchRow& row : rows_) {
    text += csv_line({date_,
                      version(),
                      problem_.machine.cpu,
                      std::to_string(problem_.machine.processors),
                      operation_,
                      to_string(problem_.dtype),
                      std::to_string(problem_.rows),
                      std::to_string(problem_.hidden),
                      row.recipe,
                      to_string(row.target),
                      std::to_string(row.threads),
                      row.pattern,
                      std::to_string(problem_.rounds),
                      measured(row.seconds, row.seconds * 1e3),
                      measured(row.seconds, gigabytes(row.seconds)),
                      measured(row.traffic_bytes, row.traffic_bytes / row.seconds * 1e-9),
                      measured(row.copy_seconds, row.copy_seconds * 1e3),
                      measured(row.copy_seconds, gigabytes(row.copy_seconds)),
                      measured(row.share, row.share),
                      measured(row.relative_to_normal, row.relative_to_normal)});
  }
  write_file(path, text);
}

void BenchReport::write_svg(const std::string& path) const {
  BarChart chart;
  std::vector<std::string> groups;
  const bool several_targets = problem_.targets.size() > 1;
  for (const BenchRow& row : rows_) {
    if (row.share <= 0) continue;  // patterns have a table only
    // One series a target, or, where there is but one target, a number of threads.
    std::string label = row.recipe;
    if (several_targets && problem_.threads.size() > 1) label += ", " + thread_text(row.threads);
    const size_t group = index_of(&groups, label);
    if (group == chart.groups.size()) chart.groups.push_back({label, {}});
    const size_t series =
        index_of(&chart.series, several_targets ? to_string(row.target) : thread_text(row.threads));
    chart.groups[group].bars.push_back(
        {series, row.share,
         fmt::format("{:.2f}  ({:.1f} GB/s)", row.share, gigabytes(row.seconds))});
  }
  const char* tensor = operation_ != "dequantize" ? "input" : "output";
  std::string how;
  if (!several_targets) how += fmt::format(", {}", to_string(problem_.targets.front()));
  if (problem_.threads.size() == 1) how += fmt::format(", {}", thread_text(problem_.threads[0]));
  chart.text.title = fmt::format("How close to memcpy is {}?", operation_);
  chart.text.subtitle = {
      fmt::format("{}{}. Longer is faster.", shape_text(), how),
      fmt::format("1.0 is the time of a memcpy of the {} by as many threads; GB/s: bytes of the {} "
                  "a second.",
                  tensor, tensor)};
  chart.text.x_axis = "time of memcpy / time of " + operation_;
  chart.text.footer = fmt::format("{}; medians of {} rounds; {}", to_string(problem_.machine),
                                  problem_.rounds, date_);
  chart.marker = Marker{1.0, "memcpy = 1.0"};
  write_file(path, draw(chart));
}

}  // namespace rowscale::cli
