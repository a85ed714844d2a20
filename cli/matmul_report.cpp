#include "matmul_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "failure.hpp"
#include "line_chart.hpp"
#include "output.hpp"
#include "rowscale/version.hpp"

namespace rowscale::cli {
namespace {

constexpr int64_t kMostPicturedM = 256;
constexpr size_t kMostLines = 8;  // of a picture

constexpr MatmulPart kParts[] = {MatmulPart::dense, MatmulPart::linear, MatmulPart::grouped,
                                 MatmulPart::calls};

const char* to_string(Accumulation accumulation) {
  return accumulation == Accumulation::fast ? "fast" : "precise";
}

std::string size_of(const LinearShape& layer) {
  return fmt::format("{}x{}", layer.n, layer.k);
}

std::string title_of(const MatmulRow& row) {
  const MatmulCase& p = row.problem;
  std::string text = fmt::format(
      "{}{}{}, {}, {} accumulation -> {}", p.layer.layer, p.layer.layer.empty() ? "" : ": ",
      size_of(p.layer), to_string(p.scales), to_string(p.accumulation), rowscale::to_string(p.out));
  if (row.part == MatmulPart::grouped) {
    text += fmt::format(", {} experts, {} a token", p.layer.experts, p.layer.top_k);
  }
  if (row.part == MatmulPart::linear) text += ", quantize and matmul in one graph";
  if (row.part == MatmulPart::calls) text += ", time of the calling thread";
  return text;
}

std::string microseconds(double seconds) {
  return fmt::format("{:.2f}", seconds * 1e6);
}

std::string ratio(double value) {
  return value > 0 ? fmt::format("{:.3f}", value) : "-";
}

double teraflops(const MatmulRow& row) {
  MatmulCase taken = row.problem;
  if (row.part == MatmulPart::grouped) taken.m = taken.tokens * taken.layer.top_k;
  return taken.operations() / row.seconds * 1e-12;
}

const char* reference_title(MatmulPart part) {
  return part == MatmulPart::linear ? "/ matmul alone" : "/ cublaslt";
}

std::vector<Column> columns_of(MatmulPart part) {
  std::vector<Column> columns = {{"m"}, {"backend", false}, {"us"}};
  if (part == MatmulPart::calls) {
    columns = {{"call", false}, {"backend", false}, {"us"}, {"launches"}};
  } else if (part == MatmulPart::grouped) {
    columns = {{"tokens"}, {"rows", false}, {"m"},       {"touched"}, {"backend", false},
               {"us"},     {"floor us"},    {"/ floor"}, {"TFLOP/s"}};
  } else {
    if (part == MatmulPart::linear) columns.insert(columns.begin() + 1, {"call", false});
    for (const char* title : {reference_title(part), "floor us", "/ floor", "TFLOP/s"}) {
      columns.push_back({title});
    }
  }
  columns.push_back({"algorithm", false});
  return columns;
}

Row cells_of(const MatmulRow& row) {
  const std::string backend =
      fmt::format("{}{}{}", rowscale::to_string(row.backend), row.is_chosen ? " *" : "",
                  row.is_tuned_choice ? " +" : "");
  const MatmulCase& p = row.problem;
  Row cells;
  if (row.part == MatmulPart::calls) {
    cells = {row.call, row.call == "a bare launch" ? "" : backend, microseconds(row.seconds),
             std::to_string(row.work_launches)};
  } else {
    const std::string floor = microseconds(row.floor());
    const std::string over = row.floor() > 0 ? ratio(row.seconds / row.floor()) : "-";
    const std::string rate = fmt::format("{:.3g}", teraflops(row));
    if (row.part == MatmulPart::grouped) {
      cells = {std::to_string(p.tokens),
               to_string(p.rows),
               std::to_string(p.m),
               std::to_string(row.touched),
               backend,
               microseconds(row.seconds),
               floor,
               over,
               rate};
    } else {
      cells = {std::to_string(p.m),
               backend,
               microseconds(row.seconds),
               ratio(row.over_reference),
               floor,
               over,
               rate};
      if (row.part == MatmulPart::linear) cells.insert(cells.begin() + 1, row.call);
    }
  }
  cells.push_back(row.algorithm);
  return cells;
}

// Each reason of a backend once, with the cases that it is for.
std::string refusals_text(const std::vector<MatmulRefusal>& refusals) {
  std::vector<std::pair<std::string, std::string>> texts;  // reason, cases
  for (const MatmulRefusal& one : refusals) {
    const std::string reason =
        fmt::format("{}: {}", rowscale::to_string(one.refusal.backend), one.refusal.why);
    const std::string which =
        fmt::format("m={}{}{}", one.problem.m, one.problem.rows == ExpertRows::none ? "" : " ",
                    one.problem.rows == ExpertRows::none ? "" : to_string(one.problem.rows));
    const auto same = [&](const auto& text) { return text.first == reason; };
    const auto known = std::find_if(texts.begin(), texts.end(), same);
    if (known == texts.end()) {
      texts.emplace_back(reason, which);
    } else {
      known->second += ", " + which;
    }
  }
  std::string text;
  for (const auto& [reason, which] : texts) {
    text += fmt::format("  refused by {} ({})\n", reason, which);
  }
  return text;
}

LineChart::Line& line_of(LineChart* chart, const std::string& label) {
  const auto same = [&](const LineChart::Line& line) { return line.label == label; };
  const auto it = std::find_if(chart->lines.begin(), chart->lines.end(), same);
  if (it != chart->lines.end()) return *it;
  chart->lines.push_back({label, {}});
  return chart->lines.back();
}

}  // namespace

const char* to_string(MatmulPart part) {
  switch (part) {
    case MatmulPart::dense:
      return "dense";
    case MatmulPart::linear:
      return "linear";
    case MatmulPart::grouped:
      return "grouped";
    case MatmulPart::calls:
      return "calls";
  }
  return "unknown";
}

MatmulPart parse_matmul_part(const std::string& key) {
  for (const MatmulPart part : kParts) {
    if (key == to_string(part)) return part;
  }
  throw Failure(ExitCode::usage,
                "--parts: expected some of dense, linear, grouped, calls, got " + key);
}

MatmulReport::MatmulReport(About about, std::string machine, int rounds)
    : about_(std::move(about)), machine_(std::move(machine)), rounds_(rounds) {}

void MatmulReport::print_heading(double ceiling_rate) const {
  fmt::print(
      "{}\n{}\nmatmul: microseconds of a call, medians of {} rounds, other operands with every "
      "call, all "
      "backends in the same rounds\n\n"
      "backend: * is what a plan takes, + what it takes by measuring. / cublaslt: time / "
      "cuBLASLt's own way with these scales.\n"
      "floor: A, B, their scales and D, each once, at the {:.0f} GB/s that the fastest copy or "
      "read of this run\n"
      "reaches; of experts, the weights of those that have rows. TFLOP/s: 2 m n k.\n",
      version(), machine_, rounds_, ceiling_rate * 1e-9);
}

void MatmulReport::add_and_print(const std::vector<MatmulRow>& rows,
                                 const std::vector<MatmulRefusal>& refusals) {
  if (!rows.empty()) {
    Table table(columns_of(rows.front().part));
    for (const MatmulRow& row : rows) table.add(cells_of(row));
    fmt::print("\n{}\n{}", title_of(rows.front()), table.text());
  }
  fmt::print("{}", refusals_text(refusals));
  std::fflush(stdout);
  rows_.insert(rows_.end(), rows.begin(), rows.end());
}

std::string MatmulReport::csv() const {
  std::vector<std::string> titles;
  std::vector<std::string> machine;
  for (const auto& [title, value] : about_) {
    titles.push_back(title);
    machine.push_back(value);
  }
  for (const char* title : {"part",
                            "layer",
                            "n",
                            "k",
                            "m",
                            "experts",
                            "top_k",
                            "tokens",
                            "rows",
                            "touched_experts",
                            "scales",
                            "out",
                            "accumulation",
                            "call",
                            "backend",
                            "algorithm",
                            "chosen",
                            "chosen_by_tuning",
                            "tuning",
                            "us",
                            "bytes",
                            "ceiling_gb_per_s",
                            "floor_us",
                            "time_over_floor",
                            "reference_us",
                            "time_over_reference",
                            "tflop_per_s",
                            "work_launches",
                            "sets",
                            "launches",
                            "rounds"}) {
    titles.emplace_back(title);
  }
  std::string text = csv_line(titles);
  const auto number = [](double value) { return value > 0 ? fmt::format("{:.6g}", value) : ""; };
  for (const MatmulRow& row : rows_) {
    const MatmulCase& p = row.problem;
    const bool is_timed_on_device = row.part != MatmulPart::calls;
    std::vector<std::string> fields = machine;
    for (std::string field : {std::string(to_string(row.part)),
                              p.layer.layer,
                              std::to_string(p.layer.n),
                              std::to_string(p.layer.k),
                              std::to_string(p.m),
                              std::to_string(p.layer.experts),
                              std::to_string(p.layer.top_k),
                              std::to_string(p.tokens),
                              std::string(to_string(p.rows)),
                              std::to_string(row.touched),
                              std::string(to_string(p.scales)),
                              std::string(rowscale::to_string(p.out)),
                              std::string(to_string(p.accumulation)),
                              row.call,
                              std::string(rowscale::to_string(row.backend)),
                              row.algorithm,
                              std::string(row.is_chosen ? "yes" : "no"),
                              std::string(row.is_tuned_choice ? "yes" : "no"),
                              std::string(row.tuning == Tuning::measured ? "measured" : "off"),
                              number(row.seconds * 1e6),
                              fmt::format("{:.0f}", row.bytes),
                              number(row.ceiling_rate * 1e-9),
                              number(row.floor() * 1e6),
                              row.floor() > 0 ? number(row.seconds / row.floor()) : std::string(),
                              number(row.reference * 1e6),
                              number(row.over_reference),
                              is_timed_on_device ? number(teraflops(row)) : std::string(),
                              std::to_string(row.work_launches),
                              std::to_string(row.sets),
                              std::to_string(row.launches),
                              std::to_string(rounds_)}) {
      fields.push_back(std::move(field));
    }
    text += csv_line(fields);
  }
  return text;
}

std::string MatmulReport::svg() const {
  const auto is_pictured = [](const MatmulRow& row) {
    return row.part == MatmulPart::dense && row.problem.m <= kMostPicturedM;
  };
  const auto first = std::find_if(rows_.begin(), rows_.end(), is_pictured);
  if (first == rows_.end()) {
    throw Failure(ExitCode::usage, "--svg: expected a dense product of few rows, got none");
  }
  LineChart chart;
  chart.lines.push_back({"copy ceiling", {}});
  const MatmulCase& of = first->problem;
  for (const MatmulRow& row : rows_) {
    const MatmulCase& p = row.problem;
    if (!is_pictured(row) || p.layer.n != of.layer.n || p.layer.k != of.layer.k ||
        p.scales != of.scales || p.out != of.out || p.accumulation != of.accumulation ||
        row.tuning != Tuning::off) {
      continue;
    }
    const auto m = static_cast<double>(p.m);
    auto& ceiling = chart.lines.front().points;
    if (ceiling.empty() || ceiling.back().x < m) ceiling.push_back({m, row.ceiling_rate * 1e-9});
    if (chart.lines.size() == kMostLines) continue;
    auto& points = line_of(&chart, rowscale::to_string(row.backend)).points;
    points.push_back({m, row.bytes / row.seconds * 1e-9});
  }
  chart.text.title = "How close to the memory's speed is a product of few rows?";
  chart.text.subtitle = {
      fmt::format("n x k {}, {} scales, {} out, weights cold. Higher is faster.", size_of(of.layer),
                  to_string(of.scales), rowscale::to_string(of.out)),
      "GB/s: A, B, scales and D, each once."};
  chart.text.x_axis = "m";
  chart.text.y_axis = "GB/s";
  chart.text.footer = fmt::format("{}; medians of {} rounds", machine_, rounds_);
  return draw(chart);
}

}  // namespace rowscale::cli
