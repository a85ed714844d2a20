#include "checkpoint/patterns.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "checkpoint/failure.hpp"
#include "checkpoint/python_expression.hpp"
#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr std::string_view kRegex = "re:";
// Names are short; an expression that needs more backtracking than this would never end.
constexpr uint32_t kMatchLimit = 1'000'000;

}  // namespace

struct Patterns::Pattern {
  std::string text;
  pcre2_code* code = nullptr;  // nullptr: the name itself
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  const char* list = "";
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
    refuse_usage("{} {}: cannot be matched with {}: error {}", list, shown(text), shown(module),
                 got);
  }
};

Patterns::Patterns(const std::vector<std::string>& patterns, const char* list) : list_(list) {
  for (const std::string& text : patterns) {
    auto pattern = std::make_unique<Pattern>();
    pattern->text = text;
    pattern->list = list;
    if (text.rfind(kRegex, 0) == 0) {
      const std::string_view expression = std::string_view(text).substr(kRegex.size());
      if (const auto found = find_difference_from_python(expression)) {
        refuse_usage("{} {}: {} means something else, or nothing, to Python's re{}{}", list,
                     shown(text), found->text, *found->instead == '\0' ? "" : "; write ",
                     found->instead);
      }
      int error = 0;
      PCRE2_SIZE at = 0;
      pattern->code =
          pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                        PCRE2_ANCHORED | PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
      if (pattern->code == nullptr) {
        PCRE2_UCHAR why[128] = {};
        pcre2_get_error_message(error, why, sizeof why);
        refuse_usage("{} {}: no regular expression: {} at character {}", list, shown(text),
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
    refuse_usage("{} {}: fits no module with a weight{}", list_, shown(pattern->text),
                 pattern->code != nullptr ? " (an expression is matched from the start of the name)"
                                          : " (an expression begins with re:)");
  }
}

}  // namespace rowscale::checkpoint
