#include "checkpoint/record.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "checkpoint/failure.hpp"
#include "checkpoint/model.hpp"

namespace rowscale::checkpoint {
namespace {

using nlohmann::json;

// Of an enumeration, by its name.
template <class Enum, size_t N>
Enum named(const std::string_view (&names)[N], const std::string& name, const std::string& what) {
  const auto* at = std::find(std::begin(names), std::end(names), name);
  if (at == std::end(names)) {
    refuse_input("{}: {}: expected one of {}, got {}", kRecordName, what, fmt::join(names, ", "),
                 shown(name));
  }
  return static_cast<Enum>(at - std::begin(names));
}

Record parse(const json& text) {
  Record out;
  out.version = text.at("rowscale").get<std::string>();
  out.source = text.at("source").get<std::string>();
  out.request.scheme = named<Scheme>(kSchemeNames, text.at("scheme").get<std::string>(), "scheme");
  out.request.numerics =
      named<Numerics>(kNumericsNames, text.at("numerics").get<std::string>(), "numerics");
  out.request.ignore = text.at("ignore").get<std::vector<std::string>>();
  out.files.reserve(text.at("files").size());
  for (const json& file : text.at("files")) {
    out.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<int64_t>(),
                         file.at("sha256").get<std::string>()});
  }
  return out;
}

}  // namespace

std::optional<Record> read_record(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / kRecordName).string();
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
    return std::nullopt;
  }
  const std::string text = read_text(path, kLargestText);
  try {
    return parse(json::parse(text));
  } catch (const json::exception&) {
    refuse_input("{}: expected a record of a conversion, got other JSON, or none", path);
  }
}

}  // namespace rowscale::checkpoint
