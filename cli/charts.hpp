// Two kinds of charts, drawn with Svg.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rowscale::cli {

struct ChartText {
  std::string title;
  std::vector<std::string> subtitle;  // lines: what is shown and how to read it
  std::string x_axis;                 // with the unit
  std::string y_axis;
  std::string footer;  // where and when
};

struct Marker {
  double value = 0;
  std::string label;
};

// Horizontal bars from zero, in groups; the bars of one series have one color.
struct BarChart {
  struct Bar {
    size_t series = 0;
    double value = 0;
    std::string note;  // stands at the end of the bar
  };
  struct Group {
    std::string label;
    std::vector<Bar> bars;
  };
  ChartText text;
  std::vector<std::string> series;  // at most 4; the legend is left out for one
  std::vector<Group> groups;
  std::optional<Marker> marker;  // a vertical line to compare with
};

// Histograms one above the other, over one x axis.
struct HistogramChart {
  struct Panel {
    std::string label;
    std::string note;
    std::vector<double> values;  // finite
  };
  ChartText text;
  std::vector<Panel> panels;
  std::optional<Marker> marker;  // through all panels
};

std::string draw(const BarChart& chart);  // an SVG file
std::string draw(const HistogramChart& chart);

}  // namespace rowscale::cli
