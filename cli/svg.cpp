#include "svg.hpp"

#include <fmt/format.h>

namespace rowscale::cli {
namespace {

constexpr const char* kFonts =
    "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif";

// XML has no control characters at all, not even escaped.
std::string escaped(std::string_view words) {
  std::string printable(words);
  for (char& c : printable) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return escape_markup(printable);
}

std::string number(double value) {
  return fmt::format("{:.5g}", value);
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Svg::Svg(double width, double height, std::string_view title) {
  body_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\" font-family=\"{2}\">\n<title>{3}</title>\n",
      number(width), number(height), kFonts, escaped(title));
  rectangle({0, 0}, width, height, "#ffffff");
}

void Svg::rectangle(Point corner, double width, double height, const char* fill) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
                       number(corner.x), number(corner.y), number(width), number(height), fill);
}

void Svg::line(Point from, Point to, const char* stroke, double width, const char* dashes) {
  body_ += fmt::format(
      "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"{}\"",
      number(from.x), number(from.y), number(to.x), number(to.y), stroke, number(width));
  if (*dashes != '\0') body_ += fmt::format(" stroke-dasharray=\"{}\"", dashes);
  body_ += "/>\n";
}

void Svg::text_element(const std::string& place, std::string_view words, const TextStyle& style) {
  body_ += fmt::format("<text {} font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\"{}>{}</text>\n",
                       place, number(style.size), style.fill, style.anchor,
                       style.bold ? " font-weight=\"600\"" : "", escaped(words));
}

void Svg::text(Point at, std::string_view words, const TextStyle& style) {
  text_element(fmt::format("x=\"{}\" y=\"{}\"", number(at.x), number(at.y)), words, style);
}

void Svg::vertical_text(Point at, std::string_view words, const TextStyle& style) {
  text_element(
      fmt::format("transform=\"translate({} {}) rotate(-90)\"", number(at.x), number(at.y)), words,
      style);
}

std::string Svg::finish() {
  return std::move(body_ += "</svg>\n");
}

double text_width(std::string_view words, double size) {
  size_t characters = 0;  // not bytes: 10xxxxxx continues a character
  for (const char c : words) characters += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return static_cast<double>(characters) * size * 0.6;
}

}  // namespace rowscale::cli
