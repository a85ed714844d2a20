#include "checkpoint/output_names.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "checkpoint/failure.hpp"
#include "checkpoint/record.hpp"

namespace rowscale::checkpoint {
namespace {

bool is_copied(const Model& model, std::string_view name) {
  const auto& files = model.side_files();
  return std::any_of(files.begin(), files.end(), [&](const SideFile& file) {
    return file.fate == Fate::copied && file.name == name;
  });
}

}  // namespace

std::string base_card_name(const Model& model) {
  if (!is_copied(model, kCardName)) return {};
  std::string name = "README.base.md";
  for (int number = 2; is_copied(model, name); ++number) {
    name = fmt::format("README.base-{}.md", number);
  }
  return name;
}

std::vector<CopiedFile> copied_files(const Model& model, Card card) {
  std::vector<CopiedFile> out;
  for (const SideFile& file : model.side_files()) {
    if (file.fate != Fate::copied) continue;
    const bool is_set_aside = card == Card::write && file.name == kCardName;
    out.push_back({file.name, is_set_aside ? base_card_name(model) : file.name});
  }
  return out;
}

std::vector<std::string> output_names(const Model& model, Card card) {
  std::vector<std::string> out = {kRecordName, kConfigName};
  if (card == Card::write) {
    const std::string folder = std::string(kCardName) + "/";
    for (const SideFile& file : model.side_files()) {
      if (!file.name.starts_with(folder)) continue;
      refuse_usage("--card: expected a file {} in MODEL, or none, got a folder", kCardName);
    }
    out.emplace_back(kCardName);
  }
  if (model.has_index()) out.push_back(model.index_name());
  for (uint32_t shard = 0; shard < model.shards().size(); ++shard) {
    out.push_back(model.shard_name(shard));
  }
  for (CopiedFile& file : copied_files(model, card)) out.push_back(std::move(file.to));
  return out;
}

}  // namespace rowscale::checkpoint
