#include "checkpoint/json_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>

#include "checkpoint/failure.hpp"

namespace rowscale::checkpoint {
namespace {

// Of config.json: what prints or compares a value calls itself once a level.
constexpr int kDeepest = 64;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Past the string that begins at `i`.
size_t end_of_string(std::string_view text, size_t i) {
  for (++i; i < text.size() && text[i] != '"'; ++i) {
    if (text[i] == '\\') ++i;
  }
  return i < text.size() ? i + 1 : text.size();
}

// Of the escape that begins at `i`, "\\uD83D": 0xD83D; -1: it is another one.
int code_unit(std::string_view text, size_t i) {
  if (i + 6 > text.size() || text[i] != '\\' || text[i + 1] != 'u') return -1;
  int out = 0;
  const char* end = text.data() + i + 6;
  const auto [at, error] = std::from_chars(text.data() + i + 2, end, out, 16);
  return error == std::errc() && at == end && text[i + 2] != '-' ? out : -1;
}

bool is_high(int unit) {
  return unit >= 0xD800 && unit < 0xDC00;
}
bool is_low(int unit) {
  return unit >= 0xDC00 && unit < 0xE000;
}

// Past the string that begins at `i`, whose halves of surrogate pairs become U+FFFD.
size_t mend_string(std::string* text, size_t i) {
  const size_t end = end_of_string(*text, i);
  for (++i; i < end; ++i) {
    if ((*text)[i] != '\\') continue;
    const int unit = code_unit(*text, i);
    if (is_high(unit) && is_low(code_unit(*text, i + 6))) {
      i += 11;
    } else if (is_high(unit) || is_low(unit)) {
      text->replace(i, 6, "\\ufffd");
      i += 5;
    } else {
      ++i;
    }
  }
  return end;
}

// A number of JSON's grammar that no double holds, which Python reads as infinity.
bool is_beyond_double(std::string_view word) {
  constexpr size_t kDigits = 300;  // with fewer and no exponent it is none
  if (word.size() < kDigits && word.find_first_of("eE") == std::string_view::npos) return false;
  try {
    return nlohmann::json::parse(word).is_discarded();  // never: it throws
  } catch (const nlohmann::json::out_of_range&) {
    return true;
  } catch (const nlohmann::json::exception&) {  // no number at all
    return false;
  }
}

// What Python reads, as JSON. Every byte keeps its place, and every value its length.
std::string plain_json(std::string_view text) {
  constexpr std::string_view kWord =
      "+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string out(text);
  for (size_t i = 0; i < out.size();) {
    if (out[i] == '"') {
      i = mend_string(&out, i);
      continue;
    }
    const size_t end = std::min(out.find_first_not_of(kWord, i), out.size());
    const std::string_view word = std::string_view(out).substr(i, end - i);
    if (word == "NaN" || word == "Infinity" || word == "-Infinity" || is_beyond_double(word)) {
      out.replace(i, word.size(), "0." + std::string(word.size() - 2, '0'));
    }
    i = std::max(end, i + 1);
  }
  return out;
}

// Past the value that begins at `i`.
size_t end_of_value(std::string_view text, size_t i) {
  int depth = 0;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '"') {
      i = end_of_string(text, i);
      if (depth == 0) return i;
      continue;
    }
    if (depth == 0 && (c == ',' || c == '}' || c == ']' || is_space(c))) return i;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') {
      --depth;
      if (depth == 0) return i + 1;
    }
    ++i;
  }
  return i;
}

size_t past_space(std::string_view text, size_t i) {
  while (i < text.size() && is_space(text[i])) ++i;
  return i;
}

struct Span {
  size_t begin;
  size_t end;
};

struct Layout {
  std::optional<Span> value;  // of the member that was sought
  size_t last_end = 0;        // past the last member's value, or past the '{'
  std::string indent;         // the white space before the last member's name
  bool is_empty = true;
};

// The members of the object at the top of valid JSON.
Layout layout_of(std::string_view text, std::string_view key, const std::string& name) {
  Layout out;
  size_t i = past_space(text, 0) + 1;  // past the '{'
  out.last_end = i;
  for (;;) {
    const size_t before = i;
    i = past_space(text, i);
    if (i >= text.size() || text[i] == '}') return out;
    out.indent = std::string(text.substr(before, i - before));
    const size_t key_end = end_of_string(text, i);
    const auto member = nlohmann::json::parse(text.substr(i, key_end - i)).get<std::string>();
    i = past_space(text, key_end);
    i = past_space(text, i + 1);  // past the ':'
    const size_t end = end_of_value(text, i);
    if (member == key) {
      if (out.value) refuse_input("{}: the member \"{}\" appears twice", name, key);
      out.value = Span{i, end};
    }
    out.is_empty = false;
    out.last_end = end;
    i = past_space(text, end);
    if (i < text.size() && text[i] == ',') ++i;
  }
}

// The lines after the first moved to where the member stands.
std::string indented(std::string_view value, const std::string& indent) {
  const size_t line = indent.rfind('\n');
  if (line == std::string::npos) {  // all on one line: so is what is added
    return nlohmann::ordered_json::parse(value).dump();
  }
  std::string out;
  for (const char c : value) {
    out += c;
    if (c == '\n') out += indent.substr(line + 1);
  }
  return out;
}

}  // namespace

bool is_utf8(std::string_view text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json parse_config(std::string_view text, const std::string& name) {
  if (text.find('\0') != std::string_view::npos) {  // the parser would take it for the end
    refuse_input("{}: expected JSON, got a NUL at byte {}", name, text.find('\0'));
  }
  const size_t first = past_space(text, 0);
  if (first == text.size() || text[first] != '{') refuse_input("{}: expected a JSON object", name);
  const auto refuse_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kDeepest) {
      refuse_input("{}: expected at most {} levels of objects and arrays, got more", name,
                   kDeepest);
    }
    return true;
  };
  try {
    return nlohmann::json::parse(plain_json(text), refuse_depth);
  } catch (const nlohmann::json::exception& error) {
    std::string why = error.what();
    why = why.substr(0, why.find("; last read"));
    const size_t prefix = why.find("] ");
    if (prefix != std::string::npos) why = why.substr(prefix + 2);
    refuse_input("{}: expected JSON, got a {}", name, why);
  }
}

std::string with_member(std::string_view text, std::span<const std::string_view> path,
                        std::string_view value, const std::string& name) {
  const std::string_view key = path.front();
  const Layout layout = layout_of(plain_json(text), key, name);
  std::string out;
  if (path.size() > 1) {
    if (!layout.value) refuse_input("{}: expected a member \"{}\", got none", name, key);
    const auto [begin, end] = *layout.value;
    out += text.substr(0, begin);
    out += with_member(text.substr(begin, end - begin), path.subspan(1), value, name);
    out += text.substr(end);
    return out;
  }
  if (layout.value) {
    // The member's own line decides, not the last one's.
    const size_t line = text.rfind('\n', layout.value->begin);
    std::string indent;
    if (line != std::string_view::npos) {
      indent = std::string(text.substr(line, past_space(text, line) - line));
    }
    out += text.substr(0, layout.value->begin);
    out += indented(value, indent);
    out += text.substr(layout.value->end);
    return out;
  }
  const std::string indent = layout.is_empty ? "\n  " : layout.indent;
  out += text.substr(0, layout.last_end);
  if (!layout.is_empty) out += ',';
  out += indent;
  out += '"';
  out += key;
  out += "\": ";
  out += indented(value, indent);
  if (layout.is_empty) out += '\n';
  out += text.substr(layout.last_end);
  return out;
}

}  // namespace rowscale::checkpoint
