#include "checkpoint/model_card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include "checkpoint/output_texts.hpp"

namespace rowscale::checkpoint {
namespace {

// Members of the front matter that stay true of a quantized model, with all their lines.
constexpr std::string_view kKept[] = {
    "license",      "license_name", "license_link", "language",           "pipeline_tag",
    "library_name", "tags",         "datasets",     "extra_gated_prompt", "extra_gated_fields"};

bool is_kept(std::string_view line) {
  return std::any_of(std::begin(kKept), std::end(kKept), [&](std::string_view key) {
    return line.starts_with(key) && line.size() > key.size() && line[key.size()] == ':';
  });
}

struct FrontMatter {
  std::string kept;
  std::vector<std::string> tags;  // as they stand there, "- text"
};

// YAML as the Hub's cards have it: members at the start of a line, their values behind or indented.
FrontMatter front_matter(const std::string& card) {
  FrontMatter out;
  std::istringstream lines(card);
  std::string line;
  if (!std::getline(lines, line) || line.substr(0, 3) != "---") return out;
  bool keep = false;
  bool in_tags = false;
  while (std::getline(lines, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.substr(0, 3) == "---") break;
    const bool is_member = !line.empty() && line[0] != ' ' && line[0] != '-' && line[0] != '#';
    if (is_member) {
      keep = is_kept(line);
      in_tags = line == "tags:";
      if (in_tags) continue;
    } else if (in_tags) {
      const size_t dash = line.find("- ");
      if (dash != std::string::npos) out.tags.push_back(line.substr(dash));
      continue;
    }
    if (keep) out.kept += line + "\n";
  }
  return out;
}

}  // namespace

std::string model_card(const Model& model, const Plan& plan, const std::string& original) {
  const std::string source = source_name(model);
  FrontMatter front = front_matter(original);
  for (const char* tag : {"- fp8", "- compressed-tensors", "- rowscale"}) {
    if (std::find(front.tags.begin(), front.tags.end(), tag) == front.tags.end()) {
      front.tags.emplace_back(tag);
    }
  }
  std::string out =
      "---\nbase_model: " + source + "\nbase_model_relation: quantized\n" + front.kept;
  out += "tags:\n";
  for (const std::string& tag : front.tags) out += tag + "\n";
  out += "---\n\n";
  const std::string how =
      plan.request.scheme == Scheme::fp8_dynamic
          ? "one scale an output channel; activations by token, at run time"
      : plan.request.scheme == Scheme::fp8_block
          ? fmt::format("one scale a block of {}x{}; activations by groups of {}, at run time",
                        plan.block_rows, plan.block_columns, plan.block_columns)
          : "one scale a weight; activations by token, at run time";
  const bool is_on_hub = source.find('/') != std::string::npos;
  const std::string named =
      is_on_hub ? fmt::format("[{0}](https://huggingface.co/{0})", source) : source;
  out += fmt::format(
      "# {} in FP8\n\nWeights of {} in FP8 (e4m3): {}. Made with "
      "rowscale,\nscheme `{}`, numerics `{}`, in the compressed-tensors format; {:.1f} % of the "
      "weight bytes are quantized.\n",
      source, named, how, to_string(plan.request.scheme), to_string(plan.request.numerics),
      100.0 * plan.share_quantized());
  if (!original.empty())
    out += "\nThe card of the original model: [README.base.md](README.base.md).\n";
  return out;
}

}  // namespace rowscale::checkpoint
