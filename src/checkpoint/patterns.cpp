#include "checkpoint/patterns.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "checkpoint/failure.hpp"
#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr std::string_view kRegex = "re:";
// Names are short; an expression that needs more backtracking than this would never end.
constexpr uint32_t kMatchLimit = 1'000'000;

struct Difference {
  std::string_view text;
  const char* instead;
};

// What PCRE2 accepts and Python's re reads differently or not at all.
constexpr Difference kDifferences[] = {
    {"\\Z", "$"},   {"\\z", "$"},   {"\\h", "[ \\t]"}, {"\\H", "[^ \\t]"}, {"\\v", "\\s"},
    {"\\V", "\\S"}, {"\\R", "\\n"}, {"\\K", ""},       {"\\X", "."},       {"\\N", "."},
    {"\\C", "."},   {"\\G", ""},    {"\\Q", "\\"},     {"\\E", ""},        {"\\e", "\\x1b"},
    {"\\p", "\\w"}, {"\\P", "\\W"}, {"\\x{", "\\x"},   {"\\g", "\\1"},     {"\\k", "(?P=name)"},
    {"[[:", "\\w"}, {"{,", "{0,"},  {"(*", "\\(\\*"},  {"(?|", "(?:"},     {"(?R", ""},
    {"(?&", ""},    {"(?C", ""},    {"(?'", "(?P<"},   {"(?P>", ""},       {"(?+", ""},
    {"(?0", ""},    {"(?1", ""},
};

void refuse_differences(std::string_view expression) {
  // Inside brackets a character stands for itself: only escapes and classes count there.
  bool in_brackets = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    for (const Difference& d : kDifferences) {
      if (!expression.substr(i).starts_with(d.text)) continue;
      if (in_brackets && d.text[0] != '\\' && d.text[0] != '[') continue;
      refuse_usage("--ignore {}: {} does not mean the same in Python, which reads it later{}{}",
                   shown("re:" + std::string(expression)), d.text,
                   *d.instead == '\0' ? "" : "; write ", d.instead);
    }
    if (expression[i] == '[') in_brackets = true;
    if (expression[i] == ']') in_brackets = false;
    if (expression[i] == '\\') ++i;
  }
}

}  // namespace

struct Patterns::Pattern {
  std::string text;
  pcre2_code* code = nullptr;  // nullptr: the name itself
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  bool used = false;

  Pattern() = default;
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  Pattern(Pattern&&) = delete;
  Pattern& operator=(Pattern&&) = delete;
  ~Pattern() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }

  bool fits(std::string_view module) const {
    if (code == nullptr) return module == text;
    const int got = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(module.data()), module.size(), 0,
                                0, match, context);
    if (got >= 0) return true;
    if (got == PCRE2_ERROR_NOMATCH) return false;
    refuse_usage("--ignore {}: cannot be matched with {}: error {}", shown(text), shown(module),
                 got);
  }
};

Patterns::Patterns(const std::vector<std::string>& patterns) {
  for (const std::string& text : patterns) {
    auto pattern = std::make_unique<Pattern>();
    pattern->text = text;
    if (text.rfind(kRegex, 0) == 0) {
      const std::string_view expression = std::string_view(text).substr(kRegex.size());
      refuse_differences(expression);
      int error = 0;
      PCRE2_SIZE at = 0;
      pattern->code =
          pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                        PCRE2_ANCHORED | PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
      if (pattern->code == nullptr) {
        PCRE2_UCHAR why[128] = {};
        pcre2_get_error_message(error, why, sizeof why);
        refuse_usage("--ignore {}: no regular expression: {} at character {}", shown(text),
                     reinterpret_cast<const char*>(why), at);
      }
      pattern->match = pcre2_match_data_create_from_pattern(pattern->code, nullptr);
      pattern->context = pcre2_match_context_create(nullptr);
      if (pattern->match == nullptr || pattern->context == nullptr) throw std::bad_alloc();
      pcre2_set_match_limit(pattern->context, kMatchLimit);
    }
    patterns_.push_back(std::move(pattern));
  }
}

Patterns::~Patterns() = default;

bool Patterns::match(std::string_view module) {
  bool any = false;
  for (const auto& pattern : patterns_) {
    if (!pattern->fits(module)) continue;
    pattern->used = true;
    any = true;
  }
  return any;
}

std::string_view Patterns::fitting(std::string_view module) const {
  for (const auto& pattern : patterns_) {
    if (pattern->fits(module)) return pattern->text;
  }
  return {};
}

void Patterns::require_all_used() const {
  for (const auto& pattern : patterns_) {
    if (pattern->used) continue;
    refuse_usage("--ignore {}: fits no module with a weight{}", shown(pattern->text),
                 pattern->code != nullptr ? " (an expression is matched from the start of the name)"
                                          : " (an expression begins with re:)");
  }
}

}  // namespace rowscale::checkpoint
