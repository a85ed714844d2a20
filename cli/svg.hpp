// SVG pictures as text: shapes and words, nothing from outside.
#pragma once

#include <string>
#include <string_view>

namespace rowscale::cli {

namespace color {
inline constexpr const char* kInk = "#1b1f24";    // words that matter
inline constexpr const char* kMuted = "#59636e";  // words that explain
inline constexpr const char* kGrid = "#e4e7eb";
inline constexpr const char* kAccent = "#c2410c";  // what the eye should compare with
// Told apart by people who see colors differently, and in grey.
inline constexpr const char* kSeries[] = {"#2563a8", "#e69f00", "#7fb3e0", "#009e73",
                                          "#cc79a7", "#8b5a2b", "#6b7280", "#b8a400"};
}  // namespace color

// Text as it may stand in an element or an attribute, of SVG and of HTML.
std::string escape_markup(std::string_view text);

struct TextStyle {
  double size = 14;
  const char* fill = color::kInk;
  const char* anchor = "start";  // start, middle, end
  bool bold = false;
};

struct Point {
  double x;
  double y;
};

class Svg {
 public:
  // `title`: what a screen reader says.
  Svg(double width, double height, std::string_view title);

  void rectangle(Point corner, double width, double height, const char* fill);
  void line(Point from, Point to, const char* stroke, double width = 1, const char* dashes = "");
  void text(Point at, std::string_view words, const TextStyle& style = {});  // at: on the baseline
  void vertical_text(Point at, std::string_view words, const TextStyle& style);  // upwards

  // The whole file. Call once.
  std::string finish();

 private:
  void text_element(const std::string& place, std::string_view words, const TextStyle& style);

  std::string body_;
};

// About how wide words become; fonts differ, so this is rather too wide.
double text_width(std::string_view words, double size);

}  // namespace rowscale::cli
