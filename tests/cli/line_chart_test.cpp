// Where points lie in the picture: read back from its text.
#include "line_chart.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace rowscale::cli {
namespace {

struct Corner {
  double x;
  double y;
};

// The number in attribute="number" after `begin`.
double attribute(const std::string& svg, const std::string& name, std::size_t begin) {
  const std::string opening = name + "=\"";
  return std::stod(svg.substr(svg.find(opening, begin) + opening.size()));
}

// The squares of 6 by 6 that stand for points.
std::vector<Corner> dots(const std::string& svg) {
  std::vector<Corner> out;
  for (std::size_t at = svg.find("<rect "); at != std::string::npos;
       at = svg.find("<rect ", at + 1)) {
    if (attribute(svg, " width", at) == 6 && attribute(svg, " height", at) == 6) {
      out.push_back({attribute(svg, " x", at), attribute(svg, " y", at)});
    }
  }
  return out;
}

LineChart chart_of(std::vector<LineChart::Point> points) {
  LineChart chart;
  chart.text.title = "a title with <angles>";
  chart.lines = {{"a line", std::move(points)}};
  return chart;
}

TEST(LineChart, EqualFactorsAreEqualSteps) {
  const auto at = dots(draw(chart_of({{1, 10}, {10, 20}, {100, 30}})));
  ASSERT_EQ(at.size(), 3U);
  EXPECT_NEAR(at[1].x - at[0].x, at[2].x - at[1].x, 0.2);
  EXPECT_NEAR(at[1].y - at[0].y, at[2].y - at[1].y, 0.2);
  EXPECT_LT(at[1].x, at[2].x);
  EXPECT_GT(at[1].y, at[2].y);  // more is higher
}

TEST(LineChart, OnePointAndNone) {
  EXPECT_EQ(dots(draw(chart_of({{4096, 7}}))).size(), 1U);
  EXPECT_EQ(dots(draw(chart_of({}))).size(), 0U);
  EXPECT_EQ(draw(chart_of({{1, 1}})).find("<angles>"), std::string::npos);
}

}  // namespace
}  // namespace rowscale::cli
