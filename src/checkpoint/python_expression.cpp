#include "checkpoint/python_expression.hpp"

#include <algorithm>
#include <cctype>

namespace rowscale::checkpoint {
namespace {

struct Row {
  std::string_view text;
  const char* instead;
};

// Escapes count inside brackets too.
constexpr Row kEscapes[] = {
    {"\\Z", "$"},   {"\\z", "$"},   {"\\h", "[ \\t]"}, {"\\H", "[^ \\t]"},   {"\\v", "\\s"},
    {"\\V", "\\S"}, {"\\R", "\\n"}, {"\\K", ""},       {"\\X", "."},         {"\\N", "."},
    {"\\C", "."},   {"\\G", ""},    {"\\Q", "\\"},     {"\\E", ""},          {"\\e", "\\x1b"},
    {"\\p", "\\w"}, {"\\P", "\\W"}, {"\\g", "\\1"},    {"\\k", "(?P=name)"}, {"\\c", "\\x"},
    {"\\o", "\\x"},
};

// What may follow "(?" in both: groups without a number, lookaround, names, comments, conditions.
constexpr std::string_view kExtensions[] = {
    "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?P<", "(?P=", "(?#"};

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

class Scanner {
 public:
  explicit Scanner(std::string_view expression) : all_(expression) {}

  std::optional<PythonDifference> find() {
    while (at_ < all_.size()) {
      const std::string_view rest = all_.substr(at_);
      const auto found = rest[0] == '\\' ? in_escape(rest)
                         : in_brackets_  ? in_brackets(rest)
                                         : outside(rest);
      if (found) return found;
    }
    return std::nullopt;
  }

 private:
  using Found = std::optional<PythonDifference>;

  static PythonDifference difference(std::string_view text, const char* instead) {
    return {std::string(text), instead};
  }

  Found in_escape(std::string_view rest) {
    for (const Row& row : kEscapes) {
      if (rest.starts_with(row.text)) return difference(row.text, row.instead);
    }
    const std::string_view digits = rest.substr(std::min<size_t>(2, rest.size()));
    // PCRE2 takes one digit or braces, Python two digits and nothing else.
    if (rest.starts_with("\\x") &&
        (digits.size() < 2 || std::isxdigit(static_cast<unsigned char>(digits[0])) == 0 ||
         std::isxdigit(static_cast<unsigned char>(digits[1])) == 0)) {
      return difference(rest.substr(0, 3), "\\x and two digits");
    }
    // A group or an octal number, by rules that differ.
    if (rest.size() > 2 && is_digit(rest[1]) && is_digit(rest[2])) {
      return difference(rest.substr(0, 3), "");
    }
    at_ += 2;
    is_quantified_ = false;
    return std::nullopt;
  }

  Found in_brackets(std::string_view rest) {
    if (rest.starts_with("[:") || rest.starts_with("[.") || rest.starts_with("[=")) {
      return difference("[" + std::string(rest.substr(0, 2)), "\\w");
    }
    if (rest[0] == ']' && at_ != first_in_brackets_) in_brackets_ = false;
    ++at_;
    return std::nullopt;
  }

  Found outside(std::string_view rest) {
    if (rest[0] == '[') {
      in_brackets_ = true;
      first_in_brackets_ = at_ + (rest.starts_with("[^") ? 2 : 1);
      at_ = first_in_brackets_;
      is_quantified_ = false;
      return std::nullopt;
    }
    if (rest.starts_with("{,")) return difference("{,", "{0,");
    if (rest.starts_with("(*")) return difference("(*", "\\(\\*");
    if (rest.starts_with("(?")) return extension(rest);
    if (const size_t length = quantifier(rest); length > 0) {
      // Possessive to PCRE2 and to Python from 3.11; twice in a row to PCRE2 alone.
      if (is_quantified_) return difference(rest.substr(0, length), "");
      at_ += length;
      if (at_ < all_.size() && all_[at_] == '?') ++at_;
      is_quantified_ = true;
      return std::nullopt;
    }
    ++at_;
    is_quantified_ = false;
    return std::nullopt;
  }

  // How long the quantifier is that `rest` begins with; 0: it begins with none.
  static size_t quantifier(std::string_view rest) {
    if (rest[0] == '*' || rest[0] == '+' || rest[0] == '?') return 1;
    if (rest[0] != '{') return 0;
    size_t i = 1;
    while (i < rest.size() && is_digit(rest[i])) ++i;
    if (i == 1) return 0;
    if (i < rest.size() && rest[i] == ',') ++i;
    while (i < rest.size() && is_digit(rest[i])) ++i;
    return i < rest.size() && rest[i] == '}' ? i + 1 : 0;
  }

  Found extension(std::string_view rest) {
    is_quantified_ = false;
    for (const std::string_view known : kExtensions) {
      if (!rest.starts_with(known)) continue;
      const bool is_behind = known.starts_with("(?<");
      // Python wants all ways of a look behind to be of one length.
      if (is_behind && rest.substr(0, rest.find(')')).find('|') != std::string_view::npos) {
        return difference(rest.substr(0, rest.find(')') + 1), "one look behind for each way");
      }
      at_ += known.size();
      return std::nullopt;
    }
    if (rest.starts_with("(?(") && rest.size() > 3 && is_digit(rest[3])) {
      at_ += 3;
      return std::nullopt;
    }
    // Flags: for a group, or for all where they stand first.
    const size_t end = rest.find_first_not_of("ims", 2);
    if (end != std::string_view::npos && end > 2 &&
        (rest[end] == ':' || (rest[end] == ')' && at_ == 0))) {
      at_ += end + 1;
      return std::nullopt;
    }
    const char* instead = rest.starts_with("(?<") || rest.starts_with("(?'")   ? "(?P<name>"
                          : rest.starts_with("(?|") || rest.starts_with("(?>") ? "(?:"
                                                                               : "";
    return difference(rest.substr(0, std::min<size_t>(rest.size(), 4)), instead);
  }

  std::string_view all_;
  size_t at_ = 0;
  size_t first_in_brackets_ = 0;  // where a ] stands for itself
  bool in_brackets_ = false;
  bool is_quantified_ = false;  // the part before `at_`
};

}  // namespace

std::optional<PythonDifference> find_difference_from_python(std::string_view expression) {
  return Scanner(expression).find();
}

}  // namespace rowscale::checkpoint
