// Lines over a logarithmic x axis, drawn with Svg.
#pragma once

#include <string>
#include <vector>

#include "charts.hpp"

namespace rowscale::cli {

// y from zero; x > 0, and only the points' own x are labelled. Points stand in ascending x.
struct LineChart {
  struct Point {
    double x = 0;
    double y = 0;
  };
  struct Line {
    std::string label;
    std::vector<Point> points;
  };
  ChartText text;
  std::vector<Line> lines;  // at most 8; the first is drawn dashed: what to compare with
};

std::string draw(const LineChart& chart);  // an SVG file

}  // namespace rowscale::cli
