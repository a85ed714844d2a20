#include "chart_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

namespace rowscale::cli {

double nice_step(double span, int most) {
  const double least = span / most;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

std::vector<double> ticks(double low, double high, double step) {
  std::vector<double> out;
  const auto first = static_cast<int64_t>(std::ceil(low / step - 1e-9));
  const auto last = static_cast<int64_t>(std::floor(high / step + 1e-9));
  for (int64_t i = first; i <= last; ++i) out.push_back(static_cast<double>(i) * step);
  return out;
}

std::string tick_text(double value, double step) {
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return fmt::format("{:.{}f}", value, decimals);
}

double draw_heading(Svg* svg, const ChartText& text) {
  double y = kMargin + 16;
  svg->text({kMargin, y}, text.title, {.size = 20, .bold = true});
  for (const std::string& words : text.subtitle) {
    y += y < kMargin + 20 ? 24 : 19;
    svg->text({kMargin, y}, words, {.size = 14, .fill = color::kMuted});
  }
  return y;
}

double heading_height(const ChartText& text) {
  return kMargin + 16 + (text.subtitle.empty() ? 0 : 5) +
         19 * static_cast<double>(text.subtitle.size());
}

double draw_legend(Svg* svg, double y, const std::vector<std::string>& series) {
  double x = kMargin;
  for (size_t i = 0; i < series.size(); ++i) {
    const double width = 19 + text_width(series[i], 14) + 20;
    if (x > kMargin && x + width > kWidth) {
      x = kMargin;
      y += 22;
    }
    svg->rectangle({x, y - 11}, 13, 13, color::kSeries[i % std::size(color::kSeries)]);
    svg->text({x + 19, y}, series[i], {.size = 14});
    x += width;
  }
  return y;
}

}  // namespace rowscale::cli
