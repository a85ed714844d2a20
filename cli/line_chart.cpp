#include "line_chart.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "chart_parts.hpp"
#include "svg.hpp"

namespace rowscale::cli {
namespace {

constexpr double kPlotHeight = 380;
constexpr double kDot = 6;

// Where the plot lies, and what its edges stand for.
struct Frame {
  double left, right, top, bottom;
  double low_x, high_x;  // logarithms
  double high_y;

  [[nodiscard]] Point at(const LineChart::Point& point) const {
    const double across = high_x > low_x ? (std::log(point.x) - low_x) / (high_x - low_x) : 0.5;
    return {left + (right - left) * across, bottom - (bottom - top) * point.y / high_y};
  }
};

std::set<double> every_x(const LineChart& chart) {
  std::set<double> xs;
  for (const LineChart::Line& line : chart.lines) {
    for (const LineChart::Point& point : line.points) xs.insert(point.x);
  }
  return xs;
}

double highest(const LineChart& chart) {
  double most = 0;
  for (const LineChart::Line& line : chart.lines) {
    for (const LineChart::Point& point : line.points) most = std::max(most, point.y);
  }
  return most > 0 ? most : 1;
}

void draw_axes(Svg* svg, const Frame& frame, const std::set<double>& xs, double step) {
  for (const double tick : ticks(0, frame.high_y, step)) {
    const double y = frame.bottom - (frame.bottom - frame.top) * tick / frame.high_y;
    svg->line({frame.left, y}, {frame.right, y}, color::kGrid);
    svg->text({frame.left - 8, y + 4}, tick_text(tick, step),
              {.size = 13, .fill = color::kMuted, .anchor = "end"});
  }
  double last = -1e9;  // labels that would touch are left out
  for (const double x : xs) {
    const Point foot = frame.at({x, 0});
    svg->line(foot, {foot.x, foot.y + 5}, color::kInk);
    const std::string label = tick_text(x, 1);
    const double half = text_width(label, 13) / 2;
    if (foot.x - half < last + 6) continue;
    svg->text({foot.x, foot.y + 21}, label,
              {.size = 13, .fill = color::kMuted, .anchor = "middle"});
    last = foot.x + half;
  }
  svg->line({frame.left, frame.bottom}, {frame.right, frame.bottom}, color::kInk);
}

}  // namespace

std::string draw(const LineChart& chart) {
  std::vector<std::string> labels;
  labels.reserve(chart.lines.size());
  for (const LineChart::Line& line : chart.lines) labels.push_back(line.label);

  // The legend's height is known when it is drawn: once to measure, once to keep.
  Svg measured(kWidth, 1, "");
  const double legend = heading_height(chart.text) + 28;
  const double top = draw_legend(&measured, legend, labels) + 24;
  const std::set<double> xs = every_x(chart);
  const double step = nice_step(highest(chart), 6);
  Frame frame{};
  frame.left = kMargin + 72;
  frame.right = kWidth - kMargin - 24;
  frame.top = top;
  frame.bottom = top + kPlotHeight;
  frame.low_x = xs.empty() ? 0 : std::log(*xs.begin());
  frame.high_x = xs.empty() ? 0 : std::log(*xs.rbegin());
  frame.high_y = std::ceil(highest(chart) / step) * step;

  Svg svg(kWidth, frame.bottom + 86, chart.text.title);
  draw_heading(&svg, chart.text);
  draw_legend(&svg, legend, labels);
  draw_axes(&svg, frame, xs, step);
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const char* stroke = color::kSeries[i % std::size(color::kSeries)];
    const std::vector<LineChart::Point>& points = chart.lines[i].points;
    for (size_t p = 0; p < points.size(); ++p) {
      const Point at = frame.at(points[p]);
      svg.rectangle({at.x - kDot / 2, at.y - kDot / 2}, kDot, kDot, stroke);
      if (p > 0) svg.line(frame.at(points[p - 1]), at, stroke, 2, i == 0 ? "6 4" : "");
    }
  }
  svg.vertical_text({kMargin + 12, (frame.top + frame.bottom) / 2}, chart.text.y_axis,
                    {.size = 14, .anchor = "middle"});
  svg.text({(frame.left + frame.right) / 2, frame.bottom + 44}, chart.text.x_axis,
           {.size = 14, .anchor = "middle"});
  svg.text({kMargin, frame.bottom + 72}, chart.text.footer, {.size = 12, .fill = color::kMuted});
  return svg.finish();
}

}  // namespace rowscale::cli
