#include "gpu/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "line_chart.hpp"
#include "machine.hpp"
#include "output.hpp"
#include "rowscale/version.hpp"

namespace rowscale::cli::gpu {
namespace {

double rate(const Row& row) {
  return row.traffic_bytes / row.seconds;
}

std::string gigabytes(double bytes_per_second) {
  return fmt::format("{:.0f}", bytes_per_second * 1e-9);
}

LineChart::Line& line_of(LineChart* chart, const std::string& label) {
  const auto same = [&](const LineChart::Line& line) { return line.label == label; };
  const auto it = std::find_if(chart->lines.begin(), chart->lines.end(), same);
  if (it != chart->lines.end()) return *it;
  chart->lines.push_back({label, {}});
  return chart->lines.back();
}

}  // namespace

Report::Report(std::string operation, Gpu gpu, int rounds)
    : operation_(std::move(operation)), gpu_(std::move(gpu)), rounds_(rounds), date_(utc_now()) {}

void Report::print_heading() const {
  fmt::print(
      "{}\n{}\n{}: microseconds of a launch in a CUDA graph, medians of {} replays, nothing from "
      "the "
      "L2 cache; {}\n\n"
      "GB/s: input, codes and scales, each once (the input of a dynamic per_tensor that does not "
      "fit\n"
      "into the L2 cache: twice); of a fused operator a residual, read and written, and a stored "
      "row\n"
      "too. ceiling: the fastest of six kernels that only copy, reading and\n"
      "writing as many bytes an element. share: our GB/s / the ceiling's, in the same rounds.\n"
      "memcpy: cudaMemcpy of a byte an element, device to device, read and written.\n",
      version(), to_string(gpu_), operation_, rounds_, date_);
}

void Report::add_and_print(const std::vector<Row>& rows) {
  const bool patterns = std::any_of(rows.begin(), rows.end(),
                                    [](const Row& row) { return row.pattern != Pattern::normal; });
  std::vector<Column> columns = {{"dtype", false},  {"tokens"},       {"hidden"},
                                 {"recipe", false}, {"us"},           {"GB/s"},
                                 {"share"},         {"ceiling GB/s"}, {"memcpy GB/s"}};
  if (patterns) {
    columns.push_back({"data", false});
    columns.push_back({"time / normal"});
  }
  Table table(std::move(columns));
  for (const Row& row : rows) {
    std::vector<std::string> cells = {rowscale::to_string(row.dtype),
                                      std::to_string(row.shape.tokens),
                                      std::to_string(row.shape.hidden),
                                      row.recipe,
                                      fmt::format("{:.2f}", row.seconds * 1e6),
                                      gigabytes(rate(row)),
                                      fmt::format("{:.3f}", row.share),
                                      gigabytes(row.ceiling_rate),
                                      gigabytes(row.memcpy_rate)};
    if (patterns) {
      cells.emplace_back(cli::to_string(row.pattern));
      cells.push_back(fmt::format("{:.3f}", row.relative_to_normal));
    }
    table.add(std::move(cells));
    rows_.push_back(row);
  }
  const std::string& layers = rows.empty() ? std::string() : rows.front().shape.input_of;
  fmt::print("\n{}{}", layers.empty() ? "" : "input of " + layers + ":\n", table.text());
}

void Report::write_csv(const std::string& path) const {
  std::string text = csv_line({"date",
                               "version",
                               "gpu",
                               "multiprocessors",
                               "driver",
                               "cuda",
                               "sm_clock_mhz",
                               "operation",
                               "dtype",
                               "tokens",
                               "hidden",
                               "input_of",
                               "recipe",
                               "data",
                               "sets",
                               "launches",
                               "rounds",
                               "us",
                               "traffic_bytes",
                               "gb_per_s",
                               "ceiling_gb_per_s",
                               "share_of_ceiling",
                               "memcpy_gb_per_s",
                               "time_relative_to_normal"});
  const auto number = [](double value) { return fmt::format("{:.6g}", value); };
  for (const Row& row : rows_) {
    text += csv_line({date_,
                      version(),
                      gpu_.name,
                      std::to_string(gpu_.multiprocessors),
                      gpu_.driver,
                      cuda_version(gpu_),
                      std::to_string(gpu_.sm_clock_mhz),
                      operation_,
                      rowscale::to_string(row.dtype),
                      std::to_string(row.shape.tokens),
                      std::to_string(row.shape.hidden),
                      row.shape.input_of,
                      row.recipe,
                      cli::to_string(row.pattern),
                      std::to_string(row.sets),
                      std::to_string(row.launches),
                      std::to_string(rounds_),
                      number(row.seconds * 1e6),
                      fmt::format("{:.0f}", row.traffic_bytes),
                      number(rate(row) * 1e-9),
                      number(row.ceiling_rate * 1e-9),
                      number(row.share),
                      number(row.memcpy_rate * 1e-9),
                      number(row.relative_to_normal)});
  }
  write_file(path, text);
}

void Report::write_svg(const std::string& path) const {
  LineChart chart;
  // One width and one dtype a picture: the first of each that was measured.
  const Row& first = rows_.front();
  for (const Row& row : rows_) {
    if (row.pattern != Pattern::normal || row.dtype != first.dtype ||
        row.shape.hidden != first.shape.hidden) {
      continue;
    }
    const auto tokens = static_cast<double>(row.shape.tokens);
    if (row.carries_ceiling) {
      line_of(&chart, "copy ceiling").points.push_back({tokens, row.ceiling_rate * 1e-9});
    }
    line_of(&chart, row.recipe).points.push_back({tokens, rate(row) * 1e-9});
  }
  chart.text.title = fmt::format("How close to a copy is {} on a GPU?", operation_);
  chart.text.subtitle = {fmt::format("{}, hidden {}, data cold. Higher is faster.",
                                     rowscale::to_string(first.dtype), first.shape.hidden),
                         "GB/s: input, codes and scales."};
  chart.text.x_axis = "tokens";
  chart.text.y_axis = "GB/s";
  chart.text.footer = fmt::format("{}; medians of {} replays; {}", to_string(gpu_), rounds_, date_);
  write_file(path, draw(chart));
}

}  // namespace rowscale::cli::gpu
