#include "checkpoint/model_card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

#include "checkpoint/json_text.hpp"
#include "checkpoint/output_names.hpp"
#include "checkpoint/output_texts.hpp"

namespace rowscale::checkpoint {
namespace {

// Members of the front matter that stay true of a quantized model, with all their lines.
constexpr std::string_view kKept[] = {"license",  "license_name",       "license_link",
                                      "language", "pipeline_tag",       "library_name",
                                      "datasets", "extra_gated_prompt", "extra_gated_fields"};
constexpr std::string_view kTags = "tags:";

bool is_kept(std::string_view line) {
  return std::any_of(std::begin(kKept), std::end(kKept), [&](std::string_view key) {
    return line.starts_with(key) && line.size() > key.size() && line[key.size()] == ':';
  });
}

struct FrontMatter {
  std::string kept;
  std::vector<std::string> tags;  // as they stand there
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// What stands behind "tags:" in its line: nothing, one tag, or "[a, b]".
void add_tags(std::string_view text, std::vector<std::string>* tags) {
  text = trimmed(text);
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view tag = trimmed(text.substr(0, comma));
    if (!tag.empty()) tags->emplace_back(tag);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
}

// A text that YAML could take for something else is quoted: JSON is YAML.
std::string yaml_text(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  const bool is_plain =
      text.find_first_not_of(kPlain) == std::string::npos &&
      text.find_first_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == 0;
  return is_plain ? text : json_string(text);
}

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
      in_tags = line.starts_with(kTags);
      if (in_tags) {
        add_tags(std::string_view(line).substr(kTags.size()), &out.tags);
        continue;
      }
    } else if (in_tags) {
      const size_t dash = line.find("- ");
      if (dash != std::string::npos) out.tags.emplace_back(trimmed(line.substr(dash + 2)));
      continue;
    }
    if (keep) out.kept += line + "\n";
  }
  return out;
}

}  // namespace

std::string model_card(const Model& model, const Plan& plan) {
  const std::string base = base_card_name(model);
  const std::string original =
      base.empty() ? std::string() : read_text(model.file_path(kCardName), kLargestText);
  const std::string source = source_name(model, plan);
  FrontMatter front = front_matter(original);
  for (const char* tag : {"fp8", "compressed-tensors", "rowscale"}) {
    if (std::find(front.tags.begin(), front.tags.end(), tag) == front.tags.end()) {
      front.tags.emplace_back(tag);
    }
  }
  std::string out =
      "---\nbase_model: " + yaml_text(source) + "\nbase_model_relation: quantized\n" + front.kept;
  out += "tags:\n";
  for (const std::string& tag : front.tags) out += "- " + tag + "\n";
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
  if (!base.empty()) out += fmt::format("\nThe card of the original model: [{0}]({0}).\n", base);
  return out;
}

}  // namespace rowscale::checkpoint
