#include "plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "json_lines.hpp"

namespace rowscale::cli {
namespace {

using checkpoint::Fate;
using checkpoint::Model;
using checkpoint::OutputTensor;
using checkpoint::Plan;
using checkpoint::Reason;
using checkpoint::TensorEntry;
using checkpoint::TensorPlan;

int64_t bytes_of(const std::vector<OutputTensor>& outputs) {
  return std::accumulate(outputs.begin(), outputs.end(), int64_t{0},
                         [](int64_t sum, const OutputTensor& out) { return sum + out.bytes; });
}

std::string what_text(const TensorPlan& tensor, size_t outputs) {
  const std::string action = to_string(tensor.action);
  const std::string parts = outputs > 2 ? fmt::format(" into {} weights", outputs / 2) : "";
  return fmt::format("{}{}: {}", action, parts, to_string(tensor.reason));
}

void write_tensors(const Model& model, const Plan& plan, const Sink& sink) {
  write_table(
      {{"tensor", false},
       {"dtype", false},
       {"shape", false},
       {"bytes before"},
       {"after"},
       {"what and why", false}},
      [&](const std::function<void(const Row&)>& row) {
        for (const TensorPlan& tensor : plan.tensors) {
          const TensorEntry& entry = model.entry(tensor.source);
          const auto outputs = outputs_of(plan, model, tensor);
          row({checkpoint::shown(entry.name), to_string(entry.type),
               fmt::format("[{}]", fmt::join(entry.shape, ", ")), grouped(entry.bytes()),
               grouped(bytes_of(outputs)), what_text(tensor, outputs.size())});
        }
      },
      sink);
  sink("\n");
}

void add_side_files(const Model& model, std::string* out) {
  for (const checkpoint::SideFile& file : model.side_files()) {
    if (file.fate != Fate::left_out) continue;
    *out += fmt::format("left out: {} ({})\n", checkpoint::shown(file.name), file.reason);
  }
}

// Reasons by their bytes.
std::vector<Reason> reasons_of(const Plan& plan) {
  std::vector<Reason> out;
  for (int i = 0; i < checkpoint::kReasons; ++i) {
    if (plan.by_reason[static_cast<size_t>(i)].tensors > 0) out.push_back(static_cast<Reason>(i));
  }
  std::sort(out.begin(), out.end(), [&](Reason a, Reason b) {
    const int64_t bytes_a = plan.by_reason[static_cast<size_t>(a)].bytes;
    const int64_t bytes_b = plan.by_reason[static_cast<size_t>(b)].bytes;
    return bytes_a != bytes_b ? bytes_a > bytes_b : a < b;
  });
  return out;
}

double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

bool falls_short(const Plan& plan) {
  return plan.share_quantized() < 0.5;
}

double percent_of(const Plan& plan, Reason reason) {
  return percent(plan.by_reason[static_cast<size_t>(reason)].bytes, plan.source_bytes);
}

// Why bytes do not become FP8, where that is a hundredth of all or more.
std::vector<Reason> reasons_of_the_rest(const Plan& plan) {
  std::vector<Reason> out = reasons_of(plan);
  std::erase_if(out, [&](Reason reason) {
    return reason == Reason::linear_weight || reason == Reason::already_fp8 ||
           percent_of(plan, reason) < 1.0;
  });
  return out;
}

}  // namespace

std::string size_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

void write_plan(const Model& model, const Plan& plan, PlanDetail detail, const Sink& sink) {
  std::string out;
  if (detail == PlanDetail::every_tensor) write_tensors(model, plan, sink);
  Table table({{"why", false}, {"tensors"}, {"bytes"}, {"share"}});
  for (const Reason reason : reasons_of(plan)) {
    const auto& total = plan.by_reason[static_cast<size_t>(reason)];
    table.add({to_string(reason), grouped(total.tensors), grouped(total.bytes),
               fmt::format("{:.1f} %", percent(total.bytes, plan.source_bytes))});
  }
  out += table.text() + "\n";
  add_side_files(model, &out);
  out += fmt::format(
      "{} with {} numerics: {} of the weight bytes become FP8; weights {} before, {} after; "
      "{} of other files\n",
      to_string(plan.request.scheme), to_string(plan.request.numerics),
      fmt::format("{:.1f} %", 100.0 * plan.share_quantized()), size_text(plan.source_bytes),
      size_text(plan.output_bytes), size_text(plan.side_bytes));
  sink(out);
}

std::string shortfall_text(const Plan& plan) {
  if (!falls_short(plan)) return {};
  std::string out =
      fmt::format("Less than half of the weight bytes, {:.1f} %, become FP8. The rest:\n",
                  100.0 * plan.share_quantized());
  for (const Reason reason : reasons_of_the_rest(plan)) {
    out += fmt::format("  {:5.1f} %  {}\n", percent_of(plan, reason), to_string(reason));
  }
  return out;
}

std::string shortfall_json(const Plan& plan) {
  if (!falls_short(plan)) return {};
  nlohmann::ordered_json line = json_line("shortfall");
  line["quantized_share"] = plan.share_quantized();
  line["rest"] = nlohmann::ordered_json::object();
  for (const Reason reason : reasons_of_the_rest(plan)) {
    line["rest"][code_of(reason)] = percent_of(plan, reason) / 100;
  }
  return dump(line) + "\n";
}

void write_plan_json(const Model& model, const Plan& plan, PlanDetail detail, const Sink& sink) {
  if (detail == PlanDetail::every_tensor) {
    for (const TensorPlan& tensor : plan.tensors) {
      const TensorEntry& entry = model.entry(tensor.source);
      const auto outputs = outputs_of(plan, model, tensor);
      nlohmann::ordered_json line = json_line("tensor");
      line["name"] = std::string(entry.name);
      line["file"] = model.shard_name(tensor.source.shard);
      line["dtype"] = to_string(entry.type);
      line["shape"] = std::vector<int64_t>(entry.shape.begin(), entry.shape.end());
      line["action"] = to_string(tensor.action);
      line["reason"] = code_of(tensor.reason);
      line["bytes_before"] = entry.bytes();
      line["bytes_after"] = bytes_of(outputs);
      sink(dump(line) + "\n");
    }
  }
  for (const checkpoint::SideFile& file : model.side_files()) {
    if (file.fate != Fate::left_out) continue;
    nlohmann::ordered_json line = json_line("left_out");
    line["name"] = file.name;
    line["reason"] = file.reason;
    sink(dump(line) + "\n");
  }
  for (const std::string& warning : plan.warnings) {
    nlohmann::ordered_json line = json_line("warning");
    line["message"] = warning;
    sink(dump(line) + "\n");
  }
  nlohmann::ordered_json line = json_line("plan");
  line["scheme"] = std::string(to_string(plan.request.scheme));
  line["numerics"] = std::string(to_string(plan.request.numerics));
  line["source"] = to_string(plan.source_format);
  line["tensors"] = plan.tensors.size();
  line["bytes_before"] = plan.source_bytes;
  line["bytes_after"] = plan.output_bytes;
  line["side_bytes"] = plan.side_bytes;
  line["quantized_share"] = plan.share_quantized();
  for (const Reason reason : reasons_of(plan)) {
    const auto& total = plan.by_reason[static_cast<size_t>(reason)];
    line["reasons"][code_of(reason)] = {{"tensors", total.tensors}, {"bytes", total.bytes}};
  }
  line["ignore"] = plan.ignore;
  sink(dump(line) + "\n");
}

}  // namespace rowscale::cli
