#include "verify_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "output.hpp"
#include "svg.hpp"

namespace rowscale::cli {
namespace {

using checkpoint::Check;
using checkpoint::LayerError;

constexpr size_t kLargestShown = 500;  // rows of layers: a page that a browser opens at once

constexpr std::string_view kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; max-width: 70rem; margin: 2rem auto;
       padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #e4e7eb;
         vertical-align: top; }
th { color: #59636e; font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.bar { width: 40%; }
.bar div { background: #2563a8; height: .8rem; margin-top: .35rem; }
.fails { color: #c2410c; font-weight: 600; }
.muted { color: #59636e; }
ul { margin: .2rem 0; padding-left: 1.2rem; }
)";

std::string verdict(const Check& check) {
  if (!check.skipped().empty()) return "<span class=\"muted\">not checked</span>";
  return check.holds() ? "holds" : "<span class=\"fails\">fails</span>";
}

std::string problems(const Check& check) {
  if (!check.skipped().empty()) return escape_markup(check.skipped());
  if (check.holds()) return {};
  std::string out = "<ul>";
  for (const std::string& text : check.kept()) out += "<li>" + escape_markup(text) + "</li>";
  const auto more = check.problems() - static_cast<int64_t>(check.kept().size());
  if (more > 0) out += fmt::format("<li>and {} more</li>", more);
  return out + "</ul>";
}

std::string checks_table(const std::vector<Check>& checks) {
  std::string out =
      "<table><tr><th>check</th><th>verdict</th><th class=\"number\">items</th><th></th></tr>\n";
  for (const Check& check : checks) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td><td>{}</td></tr>\n",
                       escape_markup(check.what()), verdict(check), grouped(check.items()),
                       problems(check));
  }
  return out + "</table>\n";
}

std::string layers_table(const std::vector<LayerError>& layers) {
  double longest = 1;
  for (const LayerError& layer : layers) {
    if (std::isfinite(layer.snr())) longest = std::max(longest, layer.snr());
  }
  std::string out =
      "<h2>Layers, the noisiest first</h2>\n<p>Bars: signal-to-noise ratio of the weight. A short "
      "bar is a layer that lost more than others. Worst error: the largest difference of one "
      "element, as a share of the layer's largest.</p>\n"
      "<table><tr><th>layer</th><th class=\"number\">SNR, dB</th><th class=\"bar\"></th>"
      "<th class=\"number\">worst error</th><th class=\"number\">elements</th></tr>\n";
  for (size_t i = 0; i < layers.size() && i < kLargestShown; ++i) {
    const LayerError& layer = layers[i];
    const double snr = layer.snr();
    const double width = snr > longest ? 100.0 : std::clamp(100 * snr / longest, 0.0, 100.0);
    out += fmt::format(
        "<tr><td>{}</td><td class=\"number\">{:.2f}</td><td class=\"bar\">"
        "<div style=\"width:{:.1f}%\"></div></td><td class=\"number\">{:.2f} %</td>"
        "<td class=\"number\">{}</td></tr>\n",
        escape_markup(layer.module), snr, width, 100 * layer.worst_share(),
        grouped(layer.elements));
  }
  out += "</table>\n";
  if (layers.size() > kLargestShown) {
    out += fmt::format("<p class=\"muted\">{} further layers are less noisy.</p>\n",
                       layers.size() - kLargestShown);
  }
  return out;
}

}  // namespace

bool VerifyReport::holds() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.holds(); });
}

std::string verify_page(const VerifyReport& report) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n"
      "<title>{0}</title>\n<style>{1}</style></head>\n<body>\n<h1>{0}</h1>\n",
      escape_markup(report.model), kStyle);
  if (!report.source.empty()) {
    out += fmt::format("<p>Compared with {}.</p>\n", escape_markup(report.source));
  }
  out += checks_table(report.checks);
  if (!report.layers.empty()) out += layers_table(report.layers);
  return out + "</body>\n</html>\n";
}

}  // namespace rowscale::cli
