// What a benchmark on a GPU says: a heading and tables on stdout, a CSV file, an SVG picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/options.hpp"

namespace rowscale::cli::gpu {

// One line of the tables.
struct Row {
  std::string recipe;
  DType dtype = DType::bf16;
  Shape shape;
  Pattern pattern = Pattern::normal;
  double seconds = 0;             // of one call
  double traffic_bytes = 0;       // that have to come from memory and go there
  double ceiling_rate = 0;        // bytes a second of the copy kernel, same shape and run
  double memcpy_rate = 0;         // bytes a second of cudaMemcpy, read and written
  double share = 0;               // of ceiling_rate, the median of the rounds
  double relative_to_normal = 0;  // time on this pattern / on normal data
  int sets = 0;                   // tensors taken in turn
  int launches = 0;               // in a replay
  bool carries_ceiling = false;   // the first line of its shape: the picture takes the ceiling here
};

class Report {
 public:
  Report(std::string operation, Gpu gpu, int rounds);

  void print_heading() const;
  void add_and_print(const std::vector<Row>& rows);  // one table; a shape's lines stand together

  void write_csv(const std::string& path) const;
  void write_svg(const std::string& path) const;

 private:
  std::string operation_;
  Gpu gpu_;
  int rounds_;
  std::string date_;
  std::vector<Row> rows_;
};

}  // namespace rowscale::cli::gpu
