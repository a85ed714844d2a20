// JSON as people's config files have it, and edits that leave every other byte as it is.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace rowscale::checkpoint {

bool is_utf8(std::string_view text);

// A JSON string, with its quotes; what is no UTF-8 in `text` becomes U+FFFD.
std::string json_string(const std::string& text);

// As Python's json reads it. What JSON does not have, or our parser does not take, is read as
// something else: NaN, Infinity, -Infinity and numbers beyond a double as 0, half a surrogate pair
// as U+FFFD. Of a member that occurs twice the last one counts, as in Python. Throws
// Failure(input), whose message begins with `name`.
nlohmann::json parse_config(std::string_view text, const std::string& name);

// `text`, an object that parse_config accepts, with the member at `path` set to `value`, a JSON
// text whose lines are indented by two spaces a level: replaced where it stands, or inserted at the
// end with the indentation of the members before it. What `path` leads through are objects. Throws
// Failure(input) where they are not there, or a member of `path` occurs twice.
std::string with_member(std::string_view text, std::span<const std::string_view> path,
                        std::string_view value, const std::string& name);
inline std::string with_member(std::string_view text, std::initializer_list<std::string_view> path,
                               std::string_view value, const std::string& name) {
  return with_member(text, std::span(path.begin(), path.size()), value, name);
}

}  // namespace rowscale::checkpoint
