// What a benchmark says: a heading and tables on stdout, a CSV file, an SVG picture.
#pragma once

#include <string>
#include <vector>

#include "bench_problem.hpp"

namespace rowscale::cli {

// One line of the tables.
struct BenchRow {
  std::string recipe;
  Target target = Target::best;
  int threads = 1;
  std::string pattern = "normal";
  double seconds = 0;
  double copy_seconds = 0;        // memcpy of the floats; 0: not measured
  double share = 0;               // memcpy's time / ours, median of the rounds; 0: not measured
  double relative_to_normal = 0;  // time on this pattern / on normal data; 0: not measured
  double traffic_bytes = 0;       // what has to be read and written
};

class BenchReport {
 public:
  // `operation`: "dequantize" writes the floats, every other reads them.
  BenchReport(std::string operation, const Problem& problem);

  void print_heading() const;
  void add_and_print(const std::vector<BenchRow>& rows);           // against memcpy
  void add_and_print_patterns(const std::vector<BenchRow>& rows);  // against normal data

  void write_csv(const std::string& path) const;
  void write_svg(const std::string& path) const;

 private:
  [[nodiscard]] double gigabytes(double seconds) const;  // of floats a second
  [[nodiscard]] std::string shape_text() const;

  std::string operation_;
  Problem problem_;
  std::string date_;
  std::vector<BenchRow> rows_;
};

}  // namespace rowscale::cli
