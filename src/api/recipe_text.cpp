// Recipes as text, both ways.
#include "api/words.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <utility>

#include "api/check.hpp"
#include "numerics/fp.hpp"
#include "rowscale/recipe.hpp"

namespace rowscale {

std::string api::granularity_text(const Recipe& r) {
  std::string text = word_of(r.granularity);
  if (r.granularity == Granularity::per_group) text += fmt::format("({})", r.group_size);
  if (r.granularity == Granularity::per_block) {
    text += fmt::format("({},{})", r.block_rows, r.block_columns);
  }
  return text;
}

namespace {

using api::all_words;
using api::granularity_text;
using api::invalid;
using api::value_of;
using api::word_of;

// The bits, so that reading it back gives the same float.
template <class Kind>
std::string limit_text(Kind kind, float value) {
  if (kind == Kind::none) return word_of(kind);
  return fmt::format("{}(0x{:08x})", word_of(kind), numerics::to_bits(value));
}

// "name(arguments)" or "name".
struct Call {
  std::string_view name;
  std::string_view arguments;
};

Call split_call(std::string_view text) {
  const size_t open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')') return {text, {}};
  return {text.substr(0, open), text.substr(open + 1, text.size() - open - 2)};
}

template <class Number>
bool parse_number(std::string_view text, Number* value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

bool parse_float_bits(std::string_view text, float* value) {
  uint32_t bits = 0;
  if (text.substr(0, 2) != "0x" || !parse_number(text.substr(2), &bits, 16)) return false;
  *value = numerics::from_bits(bits);
  return true;
}

bool parse_granularity(std::string_view text, Recipe* r) {
  const Call call = split_call(text);
  if (!value_of(call.name, &r->granularity)) return false;
  if (r->granularity == Granularity::per_group) return parse_number(call.arguments, &r->group_size);
  if (r->granularity == Granularity::per_block) {
    const size_t comma = call.arguments.find(',');
    return comma != std::string_view::npos &&
           parse_number(call.arguments.substr(0, comma), &r->block_rows) &&
           parse_number(call.arguments.substr(comma + 1), &r->block_columns);
  }
  return call.arguments.empty();
}

template <class Kind>
bool parse_limit(std::string_view text, Kind* kind, float* value) {
  const Call call = split_call(text);
  if (!value_of(call.name, kind)) return false;
  const bool has_value = call.name != "none" && call.name != "standard";
  return has_value ? parse_float_bits(call.arguments, value) : call.arguments.empty();
}

Status parse_field(std::string_view key, std::string_view value, Recipe* r) {
  const auto result = [&](bool parsed, const std::string& expected) -> Status {
    if (parsed) return {};
    return invalid(fmt::format("recipe text: {}: expected {}, got '{}'", key, expected, value));
  };
  if (key == "granularity") {
    return result(parse_granularity(value, r),
                  "per_tensor, per_token, per_channel, per_column, per_group(N) or per_block(R,C)");
  }
  if (key == "format") return result(value_of(value, &r->format), all_words<Format>());
  if (key == "source") return result(value_of(value, &r->scale_source), all_words<ScaleSource>());
  if (key == "encoding") return result(value_of(value, &r->encoding), all_words<ScaleEncoding>());
  if (key == "layout") {
    return result(value == "packed" || value_of(value, &r->layout),
                  all_words<ScaleLayout>() + ", packed");
  }
  if (key == "floor") {
    return result(parse_limit(value, &r->floor.kind, &r->floor.value),
                  "standard, none, amax(BITS), scale(BITS) or if_zero(BITS)");
  }
  if (key == "bound") {
    return result(parse_limit(value, &r->bound.kind, &r->bound.value),
                  "none, amax(BITS) or scale(BITS)");
  }
  if (key == "quotient") return result(value_of(value, &r->quotient), all_words<Quotient>());
  if (key == "nan") return result(value_of(value, &r->nan), all_words<NanRule>());
  if (key == "profile") return result(value_of(value, &r->profile), all_words<Profile>());
  return invalid(fmt::format("recipe text: expected a field of a recipe, got '{}'", key));
}

}  // namespace

std::string to_string(const Recipe& recipe) {
  if (const Status status = check(recipe); !status.ok()) {
    return "invalid recipe: " + status.message();
  }
  const Recipe r = resolve(recipe);
  const bool packed = r.encoding == ScaleEncoding::ue8m0_packed;
  return fmt::format(
      "granularity={} format={} source={} encoding={} layout={} floor={} bound={} quotient={} "
      "nan={} profile={}",
      granularity_text(r), word_of(r.format), word_of(r.scale_source), word_of(r.encoding),
      packed ? "packed" : word_of(r.layout), limit_text(r.floor.kind, r.floor.value),
      limit_text(r.bound.kind, r.bound.value), word_of(r.quotient), word_of(r.nan),
      word_of(r.profile));
}

Status parse_recipe(std::string_view text, Recipe* recipe) {
  if (recipe == nullptr) return invalid("recipe: expected a place for the result, got null");
  Recipe parsed;
  std::map<std::string_view, std::string_view> fields;
  while (!text.empty()) {
    const size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::string_view field = text.substr(0, text.find(' '));
    text.remove_prefix(field.size());
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos) {
      return invalid(fmt::format("recipe text: expected key=value, got '{}'", field));
    }
    const auto [key, value] = std::pair(field.substr(0, equals), field.substr(equals + 1));
    ROWSCALE_RETURN_IF_ERROR(parse_field(key, value, &parsed));
    if (!fields.emplace(key, value).second) {
      return invalid(fmt::format("recipe text: expected each field once, got '{}' again", key));
    }
  }
  if (parsed.granularity == Granularity::per_column && !fields.contains("source")) {
    parsed.scale_source = ScaleSource::given;
  }
  const auto layout = fields.find("layout");
  if (layout != fields.end() && layout->second == "packed" &&
      parsed.encoding != ScaleEncoding::ue8m0_packed) {
    return invalid("recipe text: layout: expected packed with encoding=ue8m0_packed only");
  }
  ROWSCALE_RETURN_IF_ERROR(check(parsed));
  *recipe = parsed;
  return {};
}

}  // namespace rowscale
