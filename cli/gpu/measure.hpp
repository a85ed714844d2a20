// What every benchmark on a GPU does: shape after shape, contenders beside copies in the same
// rounds, a line of the report for each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu/graph_timer.hpp"
#include "gpu/options.hpp"
#include "gpu/report.hpp"
#include "rowscale/status.hpp"

namespace rowscale::cli::gpu {

// A contender, and the line of the report that its times go into.
struct Measured {
  GpuContender contender;
  Row row;
};

// The copies that everything on a shape is compared with.
struct Copies {
  std::vector<GpuContender> kernels;  // the ceiling is the fastest
  double kernel_bytes = 0;            // that each of them reads and writes
  GpuContender memcpy;                // cudaMemcpy
  double memcpy_bytes = 0;
};

// Of a call made once: whether it can be timed. A recipe that has no kernel is left out, with a
// line on stderr; another failure ends.
bool runs(const std::string& name, const Status& status);

// Some tenths of a second of copying, after which the clock is that of a GPU at work.
void warm_up(const Gpu& gpu, GraphTimer* timer);

// The times of a shape's contenders; those of a recipe stand together, normal data first.
std::vector<Row> time_beside_copies(const Copies& copies, const std::vector<Measured>& measured,
                                    int rounds, GraphTimer* timer);

// The lines of one shape; none where nothing runs.
using MeasureShape =
    std::function<std::vector<Row>(const Gpu& gpu, DType dtype, const Shape& shape, GraphTimer*)>;

// Everything that the options name, printed, and written where they say so.
void measure_shapes(const std::string& operation, const Options& options,
                    const std::vector<Shape>& shapes, const MeasureShape& measure);

}  // namespace rowscale::cli::gpu
