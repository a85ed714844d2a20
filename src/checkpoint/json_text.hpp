// JSON as people's config files have it, and edits that leave every other byte as it is.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rowscale::checkpoint {

// Python writes NaN, Infinity and -Infinity, which JSON does not have: they are read as 0. Of a
// member that occurs twice the last one counts, as in Python. Throws Failure(input), whose message
// begins with `name`.
nlohmann::json parse_config(std::string_view text, const std::string& name);

// `text`, an object that parse_config accepts, with the member `key` set to `value`, a JSON text
// whose lines are indented by two spaces a level: replaced where it stands, or inserted at the end
// with the indentation of the members before it. Throws Failure(input) where `key` occurs twice.
std::string with_member(std::string_view text, std::string_view key, std::string_view value,
                        const std::string& name);

}  // namespace rowscale::checkpoint
