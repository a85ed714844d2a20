// rowscale quantize MODEL OUT: arguments, and what is said while it works.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/convert.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/model.hpp"
#include "checkpoint/plan.hpp"
#include "checkpoint/strip_device.hpp"
#include "checkpoint_failure.hpp"
#include "commands.hpp"
#include "failure.hpp"
#include "json_lines.hpp"
#include "output.hpp"
#include "plan_report.hpp"
#include "progress.hpp"
#include "stop_signal.hpp"

namespace rowscale::cli {
namespace {

using checkpoint::Card;
using checkpoint::Existing;
using checkpoint::Unfinished;

struct Arguments {
  std::string model;
  std::string out;
  checkpoint::PlanRequest plan;
  checkpoint::ConvertRequest convert;
  std::string scheme;
  std::string numerics = "compressed-tensors";
  std::string device = "cpu";
  std::string max_memory = "512M";
  bool dry_run = false;
  bool resume = false;
  bool force = false;
  bool strict = false;
  bool card = false;
  bool json = false;
  bool quiet = false;
};

std::vector<std::string> names(std::span<const std::string_view> list) {
  return {list.begin(), list.end()};
}

// Of a name that is in the list.
template <class Enum>
Enum named(std::span<const std::string_view> list, const std::string& name) {
  return static_cast<Enum>(std::find(list.begin(), list.end(), name) - list.begin());
}

// The command that continues this one, as a shell takes it.
std::string resume_command(const Arguments& args) {
  const auto quoted = [](const std::string& text) {
    if (!text.empty() &&
        text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_-./=:@%+,") == std::string::npos) {
      return text;
    }
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  };
  std::string out =
      fmt::format("rowscale quantize {} {} --scheme {} --numerics {}", quoted(args.model),
                  quoted(args.out), to_string(args.plan.scheme), to_string(args.plan.numerics));
  for (const std::string& pattern : args.plan.ignore) out += " --ignore " + quoted(pattern);
  if (args.convert.threads != 0) out += fmt::format(" --threads {}", args.convert.threads);
  if (args.max_memory != "512M") out += " --max-memory " + quoted(args.max_memory);
  if (args.device != "cpu") out += " --device " + args.device;
  if (args.force) out += " --force";
  if (args.card) out += " --card";
  if (!args.plan.base_model.empty()) out += " --base-model " + quoted(args.plan.base_model);
  return out + " --resume";
}

void say_plan(const checkpoint::Model& model, const checkpoint::Plan& plan, const Arguments& args) {
  const PlanDetail detail = args.dry_run ? PlanDetail::every_tensor : PlanDetail::summary;
  if (args.json) {
    write_plan_json(model, plan, detail, print);
  } else if (args.dry_run || !args.quiet) {
    write_plan(model, plan, detail, print);
  }
  for (const std::string& warning : plan.warnings) {
    std::fprintf(stderr, "rowscale: warning: %s\n", warning.c_str());
  }
  if (args.dry_run) print(args.json ? shortfall_json(plan) : shortfall_text(plan));
  std::fflush(stdout);
}

void print_error(ExitCode code, const std::string& message) {
  nlohmann::ordered_json line = json_line("error");
  line["exit_code"] = static_cast<int>(code);
  line["message"] = message;
  print(dump(line) + "\n");
}

void quantize(Arguments args) {
  args.plan.scheme = named<checkpoint::Scheme>(checkpoint::kSchemeNames, args.scheme);
  args.plan.numerics = named<checkpoint::Numerics>(checkpoint::kNumericsNames, args.numerics);
  args.convert.out = args.out;
  args.convert.unfinished = args.resume ? Unfinished::resume : Unfinished::refuse;
  args.convert.existing = args.force ? Existing::replace : Existing::refuse;
  args.convert.card = args.card ? Card::write : Card::copy;
  args.convert.max_memory = parse_size(args.max_memory);
  args.convert.device = args.device == "cuda" ? DeviceType::cuda : DeviceType::cpu;
  checkpoint::require_device(args.convert.device);

  checkpoint::Model model = checkpoint::Model::open(args.model);
  const checkpoint::Plan plan = make_plan(&model, args.plan);
  say_plan(model, plan, args);
  check_target(model, plan, args.convert);
  if (args.strict && plan.unknown_stack_bytes > 0) {
    throw Failure(ExitCode::check, "--strict: stacks of experts would be left alone");
  }
  if (args.dry_run) return;

  const StopSignal stop;
  Progress progress(args.json    ? ProgressForm::json
                    : args.quiet ? ProgressForm::none
                                 : ProgressForm::text,
                    &stop);
  const auto outcome = [&] {
    try {
      return checkpoint::convert(&model, plan, args.convert, &progress);
    } catch (const checkpoint::Failure& failure) {
      if (failure.kind() != checkpoint::FailureKind::output) throw;
      throw checkpoint::Failure(
          failure.kind(), std::string(failure.what()) + "\nTo continue: " + resume_command(args));
    }
  }();
  progress.end();
  if (outcome == checkpoint::Outcome::stopped) {
    const std::string command = resume_command(args);
    if (args.json) {
      nlohmann::ordered_json line = json_line("stopped");
      line["signal"] = stop.number();
      line["resume"] = command;
      print(dump(line) + "\n");
    }
    throw Failure(static_cast<ExitCode>(128 + stop.number()), "stopped. To continue: " + command);
  }
  if (args.json) {
    nlohmann::ordered_json line = json_line("done");
    line["out"] = args.out;
    line["quantized_share"] = plan.share_quantized();
    print(shortfall_json(plan) + dump(line) + "\n");
  } else if (!args.quiet) {
    print(fmt::format("{}: {}, {:.1f} % of the weight bytes in FP8\n", args.out,
                      size_text(plan.output_bytes + plan.side_bytes),
                      100.0 * plan.share_quantized()));
    print(shortfall_text(plan));
  }
}

}  // namespace

void add_quantize(CLI::App* app) {
  CLI::App* command =
      app->add_subcommand("quantize", "Convert a Hugging Face checkpoint folder to FP8");
  const auto args = std::make_shared<Arguments>();
  command->add_option("MODEL", args->model, "A folder with safetensors files and config.json")
      ->required();
  command->add_option("OUT", args->out, "The folder to write; may not exist, or be empty")
      ->required();
  command
      ->add_option("--scheme", args->scheme,
                   "fp8-dynamic (a scale an output channel), fp8-block (128x128), fp8-tensor")
      ->required()
      ->check(CLI::IsMember(names(checkpoint::kSchemeNames)).description(""))
      ->type_name("NAME");
  command
      ->add_option("--numerics", args->numerics,
                   "compressed-tensors (the bytes of llm-compressor) or precise")
      ->check(CLI::IsMember(names(checkpoint::kNumericsNames)).description(""))
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--ignore", args->plan.ignore,
                   "Leave a module alone: its name, or re: and an expression; may be repeated")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  command
      ->add_option("--device", args->device,
                   "cpu or cuda: where the numbers are cast; the bytes are the same")
      ->check(CLI::IsMember({"cpu", "cuda"}).description(""))
      ->capture_default_str();
  command->add_option("--threads", args->convert.threads, "Default: the CPUs the process may use")
      ->check(CLI::Range(1, 1024).description(""));
  command
      ->add_option("--max-memory", args->max_memory,
                   "Largest resident set: 256M, 2G; a number alone is bytes")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_flag("--dry-run", args->dry_run, "Print the plan, tensor by tensor, and stop");
  command->add_flag("--resume", args->resume,
                    "Continue an interrupted run with the same arguments");
  command->add_flag("--force", args->force, "Replace an output that rowscale wrote");
  command->add_flag("--strict", args->strict, "Fail where stacks of experts would be left alone");
  command->add_flag("--card", args->card,
                    "Write a model card; the original becomes README.base.md");
  command
      ->add_option(
          "--base-model", args->plan.base_model,
          "What MODEL is called, for the card and rowscale.json; default: its folder's name")
      ->type_name("OWNER/NAME");
  command->add_flag("--json", args->json, "One JSON object a line on stdout");
  command->add_flag("--quiet", args->quiet, "No progress, no summary");
  command->callback([args] {
    try {
      quantize(*args);
    } catch (const checkpoint::Failure& failure) {
      if (args->json) print_error(exit_code_of(failure.kind()), failure.what());
      throw;
    } catch (const Failure& failure) {
      if (args->json) print_error(failure.code(), failure.what());
      throw;
    }
  });
}

}  // namespace rowscale::cli
