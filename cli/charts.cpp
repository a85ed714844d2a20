#include "charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "chart_parts.hpp"
#include "svg.hpp"

namespace rowscale::cli {
namespace {

struct Range {
  double low;
  double high;
};

double longest(const std::vector<BarChart::Group>& groups) {
  double width = 0;
  for (const auto& group : groups) width = std::max(width, text_width(group.label, 14));
  return width;
}

}  // namespace

std::string draw(const BarChart& chart) {
  constexpr double kBar = 20;
  constexpr double kBetween = 16;  // groups
  constexpr double kNotes = 150;   // room for the notes behind the longest bar

  double top = heading_height(chart.text) + 34;
  if (chart.series.size() > 1) top += 26;
  double plot_height = kBetween;
  double most = chart.marker ? chart.marker->value : 0;
  for (const auto& group : chart.groups) {
    plot_height += kBar * static_cast<double>(group.bars.size()) + kBetween;
    for (const auto& bar : group.bars) most = std::max(most, bar.value);
  }
  const double left = kMargin + longest(chart.groups) + 12;
  const double right = kWidth - kMargin - kNotes;
  const double bottom = top + plot_height;
  Svg svg(kWidth, bottom + 84, chart.text.title);
  draw_heading(&svg, chart.text);
  if (chart.series.size() > 1) draw_legend(&svg, heading_height(chart.text) + 28, chart.series);

  const double step = nice_step(most, 8);
  const auto x_of = [&](double value) { return left + (right - left) * value / most; };
  // The grid goes on under the notes.
  const double end = most * (kWidth - kMargin - left) / (right - left);
  for (const double tick : ticks(0, end, step)) {
    svg.line({x_of(tick), top}, {x_of(tick), bottom}, color::kGrid);
    svg.text({x_of(tick), bottom + 18}, tick_text(tick, step),
             {.size = 13, .fill = color::kMuted, .anchor = "middle"});
  }
  svg.text({left, bottom + 40}, chart.text.x_axis, {.size = 14});
  svg.text({kMargin, bottom + 68}, chart.text.footer, {.size = 12, .fill = color::kMuted});

  double y = top + kBetween;
  for (const auto& group : chart.groups) {
    const double height = kBar * static_cast<double>(group.bars.size());
    svg.text({left - 12, y + height / 2 + 5}, group.label, {.size = 14, .anchor = "end"});
    for (const auto& bar : group.bars) {
      svg.rectangle({left, y + 1}, std::max(1.0, x_of(bar.value) - left), kBar - 2,
                    color::kSeries[bar.series % std::size(color::kSeries)]);
      y += kBar;
    }
    y += kBetween;
  }
  if (chart.marker) {
    const double x = x_of(chart.marker->value);
    svg.line({x, top - 6}, {x, bottom}, color::kAccent, 2, "6 4");
    svg.text({x, top - 12}, chart.marker->label,
             {.size = 14, .fill = color::kAccent, .anchor = "middle", .bold = true});
  }
  // Last, so that the marker does not cross out a number.
  y = top + kBetween;
  for (const auto& group : chart.groups) {
    for (const auto& bar : group.bars) {
      const double x = x_of(bar.value) + 6;
      svg.rectangle({x, y + 2}, text_width(bar.note, 13) * 0.92, kBar - 4, "#ffffff");
      svg.text({x + 2, y + kBar - 5}, bar.note, {.size = 13});
      y += kBar;
    }
    y += kBetween;
  }
  svg.line({left, top}, {left, bottom}, color::kInk);
  return svg.finish();
}

namespace {

struct Bins {
  double low;    // of the first
  double width;  // a power of two, so that whole numbers are edges
  int count;
};

Range range_of(const HistogramChart& chart) {
  Range range = {INFINITY, -INFINITY};
  const auto add = [&](double value) {
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  };
  for (const auto& panel : chart.panels) {
    for (const double value : panel.values) add(value);
  }
  if (chart.marker) add(chart.marker->value);
  return range.low <= range.high ? range : Range{0, 1};
}

Bins make_bins(const Range& range) {
  constexpr int kMost = 72;
  double width = 1.0 / 16;
  while ((range.high - range.low) / width > kMost) width *= 2;
  const double low = std::floor(range.low / width - 1) * width;
  return {low, width, static_cast<int>(std::floor((range.high - low) / width)) + 2};
}

// Percent of the values in each bin.
std::vector<double> fill_bins(const std::vector<double>& values, const Bins& bins) {
  std::vector<double> percent(static_cast<size_t>(bins.count));
  for (const double value : values) {
    const auto bin = static_cast<size_t>((value - bins.low) / bins.width);
    percent[std::min(bin, percent.size() - 1)] += 100.0 / static_cast<double>(values.size());
  }
  return percent;
}

// A panel's bars and its y axis. box: left, right, top, bottom.
struct Box {
  double left;
  double right;
  double top;
  double bottom;
};

void draw_panel(Svg* svg, const Box& box, const std::vector<double>& percent, const char* fill) {
  const double most = std::max(1e-9, *std::max_element(percent.begin(), percent.end()));
  const double step = nice_step(most, 3);
  const double high = std::ceil(most / step - 1e-9) * step;
  const auto y_of = [&](double value) {
    return box.bottom - (box.bottom - box.top) * value / high;
  };
  for (const double tick : ticks(0, high, step)) {
    svg->line({box.left, y_of(tick)}, {box.right, y_of(tick)}, color::kGrid);
    svg->text({box.left - 8, y_of(tick) + 4}, tick_text(tick, step) + " %",
              {.size = 12, .fill = color::kMuted, .anchor = "end"});
  }
  const double width = (box.right - box.left) / static_cast<double>(percent.size());
  for (size_t i = 0; i < percent.size(); ++i) {
    if (percent[i] <= 0) continue;
    // A rare bin still shows: one pixel at least.
    const double top = std::min(y_of(percent[i]), box.bottom - 1);
    svg->rectangle({box.left + width * static_cast<double>(i) + 0.5, top}, std::max(1.0, width - 1),
                   box.bottom - top, fill);
  }
  svg->line({box.left, box.bottom}, {box.right, box.bottom}, color::kInk);
}

}  // namespace

std::string draw(const HistogramChart& chart) {
  constexpr double kPanel = 130;
  constexpr double kLabel = 44;  // above each panel
  const double first = heading_height(chart.text) + (chart.marker ? 40 : 14);
  const double last = first + (kPanel + kLabel) * static_cast<double>(chart.panels.size());
  Svg svg(kWidth, last + 86, chart.text.title);
  draw_heading(&svg, chart.text);

  const Bins bins = make_bins(range_of(chart));
  const double left = kMargin + 72;
  const double right = kWidth - kMargin;
  const double span = bins.width * bins.count;
  const auto x_of = [&](double value) { return left + (right - left) * (value - bins.low) / span; };
  svg.vertical_text({kMargin + 12, (first + last) / 2}, chart.text.y_axis,
                    {.size = 14, .anchor = "middle"});
  const double step = std::max(bins.width, nice_step(span, 12));
  for (const double tick : ticks(bins.low, bins.low + span, step)) {
    svg.line({x_of(tick), first + kLabel}, {x_of(tick), last}, color::kGrid);
    svg.line({x_of(tick), last}, {x_of(tick), last + 5}, color::kInk);
    svg.text({x_of(tick), last + 21}, tick_text(tick, step),
             {.size = 13, .fill = color::kMuted, .anchor = "middle"});
  }
  svg.text({(left + right) / 2, last + 44}, chart.text.x_axis, {.size = 14, .anchor = "middle"});
  svg.text({kMargin, last + 72}, chart.text.footer, {.size = 12, .fill = color::kMuted});

  double top = first + kLabel;
  for (size_t i = 0; i < chart.panels.size(); ++i) {
    const auto& panel = chart.panels[i];
    draw_panel(&svg, {left, right, top, top + kPanel}, fill_bins(panel.values, bins),
               color::kSeries[i % std::size(color::kSeries)]);
    svg.text({left, top - 14}, panel.label, {.size = 15, .bold = true});
    svg.text({left + text_width(panel.label, 15) + 14, top - 14}, panel.note,
             {.size = 13, .fill = color::kMuted});
    top += kPanel + kLabel;
  }
  if (chart.marker) {
    const double x = x_of(chart.marker->value);
    const bool on_the_right = x > (left + right) / 2;
    svg.line({x, first}, {x, last}, color::kAccent, 2, "6 4");
    svg.text({x, first - 8}, chart.marker->label,
             {.size = 14,
              .fill = color::kAccent,
              .anchor = on_the_right ? "end" : "start",
              .bold = true});
  }
  return svg.finish();
}

}  // namespace rowscale::cli
