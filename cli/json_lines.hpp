// What --json writes: one object a line. The first two members are always the version of the form
// and the kind of line; a program ignores members and kinds that it does not know.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rowscale::cli {

inline constexpr int kJsonVersion = 1;

inline nlohmann::ordered_json json_line(const char* event) {
  nlohmann::ordered_json line;
  line["rowscale_json"] = kJsonVersion;
  line["event"] = event;
  return line;
}

// Names of files may hold any bytes: what is no UTF-8 is replaced, not thrown at.
inline std::string dump(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace rowscale::cli
