// rowscale inspect PATH: what is in a model folder or a safetensors file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/element_reader.hpp"
#include "checkpoint/inspection.hpp"
#include "checkpoint/quantization_words.hpp"
#include "commands.hpp"
#include "json_lines.hpp"
#include "output.hpp"

namespace rowscale::cli {
namespace {

using checkpoint::Inspection;
using checkpoint::Model;
using checkpoint::ScaleStatistics;

enum class Listing { groups, tensors };

struct InspectOptions {
  std::string path;
  bool json = false;
  bool all = false;
};

std::string percent(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void print_summary(const Model& model, const Inspection& inspection) {
  fmt::print("{}: {} {}, {} tensors, {} bytes\n\n", model.path(), model.shards().size(),
             model.shards().size() == 1 ? "file" : "files", grouped(inspection.tensors),
             grouped(inspection.bytes));
  Table table({{"dtype", false}, {"tensors"}, {"bytes"}, {"share"}});
  for (const checkpoint::TypeShare& share : inspection.types) {
    table.add({checkpoint::to_string(share.type), grouped(share.tensors), grouped(share.bytes),
               percent(share.bytes, inspection.bytes)});
  }
  fmt::print("{}\n", table.text());
}

void print_quantization(const Model& model) {
  fmt::print("Quantization: ");
  if (!model.has_config() && model.quantization().format == checkpoint::SourceFormat::plain) {
    fmt::print("unknown, there is no config.json\n\n");
    return;
  }
  for (const std::string& line : checkpoint::in_words(model.quantization())) {
    fmt::print("{}\n", line);
  }
  fmt::print("\n");
}

void print_scales(const ScaleStatistics& scales) {
  if (scales.tensors == 0) return;
  fmt::print("Scales of FP8 weights: {} in {} tensors\n", grouped(scales.scales),
             grouped(scales.tensors));
  if (scales.sound() > 0) {
    const int median = scales.median_binade();
    fmt::print("  smallest {:.6g}, median between 2^{} and 2^{}, largest {:.6g}\n", scales.smallest,
               median, median + 1, scales.largest);
  }
  fmt::print("  zero: {}, negative: {}, infinite or NaN: {}\n\n", grouped(scales.zero),
             grouped(scales.negative), grouped(scales.not_finite));
}

void print_groups(const Inspection& inspection) {
  write_table(
      {{"tensor", false}, {"dtype", false}, {"shape", false}, {"count"}, {"bytes"}},
      [&](const std::function<void(const Row&)>& row) {
        for (const checkpoint::TensorGroup& group : inspection.groups) {
          row({group.name, checkpoint::to_string(group.type), checkpoint::shape_text(group.shape),
               grouped(group.tensors), grouped(group.bytes)});
        }
      },
      print);
  if (inspection.ungrouped_tensors == 0) return;
  fmt::print("and {} tensors more: --tensors prints every one\n",
             grouped(inspection.ungrouped_tensors));
}

void print_tensors(const Model& model) {
  write_table(
      {{"tensor", false}, {"dtype", false}, {"shape", false}, {"bytes"}, {"file", false}},
      [&](const std::function<void(const Row&)>& row) {
        for (const checkpoint::Place place : model.tensors()) {
          const checkpoint::TensorEntry& entry = model.entry(place);
          row({std::string(entry.name), checkpoint::to_string(entry.type),
               checkpoint::shape_text(entry.shape), grouped(entry.bytes()),
               model.shard_name(place.shard)});
        }
      },
      print);
}

void print_text(const Model& model, const Inspection& inspection, Listing listing) {
  print_summary(model, inspection);
  print_quantization(model);
  print_scales(inspection.scales);
  if (listing == Listing::tensors) {
    print_tensors(model);
  } else {
    print_groups(inspection);
  }
}

void print_line(const nlohmann::ordered_json& line) {
  fmt::print("{}\n", dump(line));
}

void print_json(const Model& model, const Inspection& inspection) {
  for (const checkpoint::Place place : model.tensors()) {
    const checkpoint::TensorEntry& entry = model.entry(place);
    nlohmann::ordered_json line = json_line("tensor");
    line["name"] = entry.name;
    line["dtype"] = checkpoint::to_string(entry.type);
    line["shape"] = std::vector(entry.shape.begin(), entry.shape.end());
    line["bytes"] = entry.bytes();
    line["file"] = model.shard_name(place.shard);
    print_line(line);
  }
  nlohmann::ordered_json line = json_line("summary");
  line["files"] = model.shards().size();
  line["tensors"] = inspection.tensors;
  line["bytes"] = inspection.bytes;
  for (const checkpoint::TypeShare& share : inspection.types) {
    line["dtypes"][checkpoint::to_string(share.type)] = {{"tensors", share.tensors},
                                                         {"bytes", share.bytes}};
  }
  line["quantization"] = checkpoint::in_words(model.quantization());
  const ScaleStatistics& scales = inspection.scales;
  line["scales"] = {{"tensors", scales.tensors},
                    {"count", scales.scales},
                    {"zero", scales.zero},
                    {"negative", scales.negative},
                    {"not_finite", scales.not_finite}};
  if (scales.sound() > 0) {
    line["scales"]["smallest"] = scales.smallest;
    line["scales"]["largest"] = scales.largest;
  }
  print_line(line);
}

void run(const InspectOptions& options) {
  Model model = Model::open(options.path);
  const Inspection inspection = checkpoint::inspect(model);
  if (options.json) {
    print_json(model, inspection);
  } else {
    print_text(model, inspection, options.all ? Listing::tensors : Listing::groups);
  }
}

}  // namespace

void add_inspect(CLI::App* app) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      app->add_subcommand("inspect", "Tensors, sizes, quantization and scales of a model");
  command->add_option("PATH", options->path, "A model folder or a .safetensors file")->required();
  command->add_flag("--tensors", options->all, "Every tensor by itself, and the file it lies in");
  command->add_flag("--json", options->json, "One object a line: each tensor, then a summary");
  command->callback([options] { run(*options); });
}

}  // namespace rowscale::cli
