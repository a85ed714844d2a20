#include "checkpoint/journal_header.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdint>
#include <ctime>

#include "checkpoint/safetensors.hpp"
#include "checkpoint/sha256.hpp"
#include "rowscale/version.hpp"

namespace rowscale::checkpoint {
namespace {

using nlohmann::ordered_json;

// Members of the header and what the user knows them as.
struct Named {
  const char* key;
  const char* name;
};
constexpr Named kOptions[] = {
    {"rowscale", "the version of rowscale"},
    {"scheme", "--scheme"},
    {"numerics", "--numerics"},
    {"ignore", "--ignore"},
    {"card", "--card"},
    {"base_model", "--base-model"},
};
constexpr const char* kSource = "source";
constexpr const char* kBytes = "bytes";
constexpr const char* kModified = "modified_ns";

std::string hash_of(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

ordered_json file_entry(int64_t bytes, int64_t modified_ns) {
  return {{kBytes, bytes}, {kModified, modified_ns}};
}

std::string words(const ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "given" : "not given";
  if (value.is_string() && !value.get_ref<const std::string&>().empty()) {
    return shown(value.get_ref<const std::string&>());
  }
  if (!value.is_array() || value.empty()) return "not given";
  std::string out;
  for (const ordered_json& text : value) {
    out += (out.empty() ? "" : ", ") + shown(text.get_ref<const std::string&>());
  }
  return out;
}

// To the nanosecond: two saves of a file may be less than a second apart.
std::string time_text(int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t rest = (ns % kSecond + kSecond) % kSecond;
  const auto seconds = static_cast<std::time_t>((ns - rest) / kSecond);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:09} UTC", fmt::gmtime(seconds), rest);
}

std::string file_difference(const std::string& name, const ordered_json& was,
                            const ordered_json& is) {
  const std::string file = "MODEL: " + shown(name);
  if (!was.is_object() || !is.is_object()) return file + " has other contents";
  const auto bytes = was.at(kBytes).get<int64_t>();
  if (bytes != is.at(kBytes)) {
    return fmt::format("{} had {} bytes, has {}", file, bytes, is.at(kBytes).get<int64_t>());
  }
  return fmt::format("{} was of {}, is of {}: it was written again, or copied without its time",
                     file, time_text(was.at(kModified).get<int64_t>()),
                     time_text(is.at(kModified).get<int64_t>()));
}

}  // namespace

ordered_json journal_header(const Model& model, const Plan& plan, Card card) {
  ordered_json out;
  out["rowscale"] = std::string(version());
  out["scheme"] = std::string(to_string(plan.request.scheme));
  out["numerics"] = std::string(to_string(plan.request.numerics));
  out["ignore"] = plan.request.ignore;
  out["card"] = card == Card::write;
  out["base_model"] = plan.request.base_model;
  ordered_json& source = out[kSource];
  source[kConfigName] = hash_of(model.config_text());
  for (uint32_t i = 0; i < model.shards().size(); ++i) {
    const TensorFile& file = model.shards()[i];
    source[model.shard_name(i)] = file_entry(file.file_bytes(), file.modified_ns());
  }
  for (const SideFile& file : model.side_files()) {
    if (file.fate == Fate::left_out || file.name == kConfigName) continue;
    source[file.name] = file_entry(file.bytes, file.modified_ns);
  }
  return out;
}

std::string header_difference(const ordered_json& was, const ordered_json& is) {
  for (const Named& option : kOptions) {
    const ordered_json& before = was.at(option.key);
    if (before == is.at(option.key)) continue;
    return fmt::format("{} was {}, is {}", option.name, words(before), words(is.at(option.key)));
  }
  const ordered_json& files_before = was.at(kSource);
  for (const auto& [name, file] : is.at(kSource).items()) {
    if (!files_before.contains(name)) return "MODEL: " + shown(name) + " was not there";
    if (files_before.at(name) != file) return file_difference(name, files_before.at(name), file);
  }
  for (const auto& [name, file] : files_before.items()) {
    if (!is.at(kSource).contains(name)) return "MODEL: " + shown(name) + " is gone";
  }
  return {};
}

}  // namespace rowscale::checkpoint
