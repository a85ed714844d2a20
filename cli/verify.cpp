// rowscale verify OUT: whether a converted model is what readers take it for, and with --against
// whether it is what its source gives.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "checkpoint/compare.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/record.hpp"
#include "checkpoint/verify_config.hpp"
#include "checkpoint/verify_files.hpp"
#include "checkpoint/verify_plan.hpp"
#include "checkpoint/verify_weights.hpp"
#include "commands.hpp"
#include "failure.hpp"
#include "json_lines.hpp"
#include "output.hpp"
#include "verify_page.hpp"

namespace rowscale::cli {
namespace {

using checkpoint::Check;
using checkpoint::LayerError;
using checkpoint::Model;
using checkpoint::Record;

constexpr size_t kShownLayers = 10;
constexpr int64_t kLargestMemory = int64_t{512} << 20;  // bytes, as a conversion has by default

struct VerifyOptions {
  std::string out;
  std::string against;
  std::string html;
  int threads = 0;
  bool json = false;
};

void print_check(const Check& check) {
  if (!check.skipped().empty()) {
    fmt::print("not checked  {}: {}\n", check.what(), check.skipped());
    return;
  }
  fmt::print("{}  {} ({})\n", check.holds() ? "holds      " : "FAILS      ", check.what(),
             grouped(check.items()));
  for (const std::string& problem : check.kept()) fmt::print("    {}\n", problem);
  const int64_t more = check.problems() - static_cast<int64_t>(check.kept().size());
  if (more > 0) fmt::print("    and {} more\n", grouped(more));
}

void print_layers(const std::vector<LayerError>& layers) {
  if (layers.empty()) return;
  Table table({{"layer", false}, {"SNR, dB"}, {"worst error"}, {"of the largest"}, {"elements"}});
  for (size_t i = 0; i < layers.size() && i < kShownLayers; ++i) {
    const LayerError& layer = layers[i];
    table.add({layer.module, fmt::format("{:.2f}", layer.snr()), fmt::format("{:.4g}", layer.worst),
               fmt::format("{:.2f} %", 100 * layer.worst_share()), grouped(layer.elements)});
  }
  fmt::print("\nThe noisiest of {} layers:\n{}", grouped(static_cast<long long>(layers.size())),
             table.text());
}

void print_json(const VerifyReport& report) {
  for (const Check& check : report.checks) {
    nlohmann::ordered_json line = json_line("check");
    line["name"] = check.name();
    line["what"] = check.what();
    line["items"] = check.items();
    line["problems"] = check.problems();
    line["shown"] = check.kept();
    if (!check.skipped().empty()) line["skipped"] = check.skipped();
    fmt::print("{}\n", dump(line));
  }
  for (const LayerError& layer : report.layers) {
    nlohmann::ordered_json line = json_line("layer");
    line["module"] = layer.module;
    line["elements"] = layer.elements;
    line["snr_db"] = layer.snr();  // null where there is no noise at all
    line["worst"] = layer.worst;
    line["amax"] = layer.amax;
    line["different_codes"] = layer.different_codes;
    line["different_scales"] = layer.different_scales;
    fmt::print("{}\n", dump(line));
  }
  nlohmann::ordered_json line = json_line("verdict");
  line["holds"] = report.holds();
  fmt::print("{}\n", dump(line));
}

void print_text(const VerifyReport& report) {
  for (const Check& check : report.checks) print_check(check);
  print_layers(report.layers);
}

// What the folder holds must be a model at all before its details can be asked for.
std::optional<Model> open_result(const std::string& out, std::vector<Check>* checks) {
  Check check("opens", "the folder opens as a model");
  check.add_item();
  std::optional<Model> model;
  try {
    model = Model::open(out);
  } catch (const checkpoint::Failure& failure) {
    check.add_problem(failure.what());
  }
  checks->push_back(std::move(check));
  return model;
}

// Empty where the source, most often another model's, cannot be converted so.
std::optional<checkpoint::Plan> plan_as_recorded(Model* source, const Record& record,
                                                 Check* check) {
  try {
    return make_plan(source, record.request);
  } catch (const checkpoint::Failure& failure) {
    if (failure.kind() == checkpoint::FailureKind::unreadable) throw;  // that ends the work
    check->add_problem(failure.what());
    return std::nullopt;
  }
}

void compare_with_source(const VerifyOptions& options, const std::optional<Record>& record,
                         Model* model, VerifyReport* report) {
  if (!record) {
    throw Failure(ExitCode::input,
                  options.out + ": --against needs rowscale.json, which says what was asked for");
  }
  Model source = Model::open(options.against);
  Check check("source", "the source can be converted as rowscale.json says");
  check.add_item();
  if (const auto plan = plan_as_recorded(&source, *record, &check)) {
    report->checks.push_back(checkpoint::verify_plan(*model, source, *plan));
    try {
      checkpoint::Comparison comparison =
          checkpoint::compare(model, &source, *plan, options.threads, kLargestMemory);
      std::move(comparison.checks.begin(), comparison.checks.end(),
                std::back_inserter(report->checks));
      report->layers = std::move(comparison.layers);
    } catch (const checkpoint::Failure& failure) {
      // A number of the source's. A file that cannot be read on and too little memory end the work.
      if (failure.kind() != checkpoint::FailureKind::data) throw;
      check.add_problem(failure.what());
    }
  }
  report->checks.push_back(std::move(check));
}

VerifyReport verify(const VerifyOptions& options) {
  VerifyReport report;
  report.model = options.out;
  report.source = options.against;
  const std::optional<Record> record = checkpoint::read_record(options.out);
  if (record) {
    report.checks.push_back(checkpoint::verify_files(options.out, *record));
  } else {
    Check check("files", "each file has the recorded size and SHA-256");
    check.skip("there is no rowscale.json");
    report.checks.push_back(std::move(check));
  }
  std::optional<Model> model = open_result(options.out, &report.checks);
  if (!model) return report;
  report.checks.push_back(checkpoint::verify_config(model->config()));
  for (Check& check : checkpoint::verify_weights(*model)) report.checks.push_back(std::move(check));
  if (!options.against.empty()) compare_with_source(options, record, &*model, &report);
  return report;
}

void run(const VerifyOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.out, ignored)) {
    std::error_code error;
    static_cast<void>(std::filesystem::absolute(options.out, error));
    throw Failure(
        ExitCode::input,
        options.out + (error ? ": expected an absolute path: the working directory is gone"
                             : ": expected the folder of a model"));
  }
  const VerifyReport report = verify(options);
  if (options.json) {
    print_json(report);
  } else {
    print_text(report);
  }
  if (!options.html.empty()) write_file(options.html, verify_page(report));
  if (!report.holds()) throw Failure(ExitCode::check, options.out + ": not all checks hold");
}

}  // namespace

void add_verify(CLI::App* app) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App* command =
      app->add_subcommand("verify", "Check a converted model: files, configuration, scales, codes");
  command->add_option("OUT", options->out, "The folder that rowscale quantize wrote")->required();
  command
      ->add_option("--against", options->against,
                   "The source: compute every weight again, compare, and rank the errors")
      ->type_name("MODEL");
  command->add_option("--html", options->html, "Write the result as one page with bars")
      ->type_name("FILE");
  command->add_option("--threads", options->threads, "Default: the CPUs the process may use")
      ->check(CLI::Range(1, 1024).description(""));
  command->add_flag("--json", options->json, "One object a line: checks, layers, the verdict");
  command->callback([options] { run(*options); });
}

}  // namespace rowscale::cli
