// What all charts are made of.
#pragma once

#include <string>
#include <vector>

#include "charts.hpp"
#include "svg.hpp"

namespace rowscale::cli {

inline constexpr double kWidth = 920;
inline constexpr double kMargin = 24;

// A step of 1, 2 or 5 times a power of ten that cuts `span` into at most `most` parts.
double nice_step(double span, int most);

// The multiples of `step` from low to high.
std::vector<double> ticks(double low, double high, double step);

std::string tick_text(double value, double step);

// Title and subtitle; the y below them.
double draw_heading(Svg* svg, const ChartText& text);
double heading_height(const ChartText& text);

// From the left margin, in as many lines as they need; the y of the last.
double draw_legend(Svg* svg, double y, const std::vector<std::string>& series);

}  // namespace rowscale::cli
