// Readers match the list `ignore` with Python's re; here PCRE2 does. What the two would read
// differently, or only one of them at all, is told apart before it is used.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rowscale::checkpoint {

struct PythonDifference {
  std::string text;          // the part of the expression
  const char* instead = "";  // what both read alike; empty: nothing short
};

// The first part that Python before 3.11 too reads otherwise than PCRE2, or not at all; an
// expression that PCRE2 refuses is not looked at more closely.
std::optional<PythonDifference> find_difference_from_python(std::string_view expression);

}  // namespace rowscale::checkpoint
