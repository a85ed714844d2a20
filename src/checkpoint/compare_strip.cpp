#include "checkpoint/compare_strip.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "checkpoint/element_reader.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/scale_names.hpp"
#include "numerics/fp8.hpp"

namespace rowscale::checkpoint {
namespace {

// The scales of a rectangle of a weight: a rectangle of the grid of scales.
struct ScaleRectangle {
  int64_t row = 0;
  int64_t rows = 1;
  int64_t column = 0;
  int64_t columns = 1;
  int64_t width = 1;         // of the whole grid
  int64_t rows_a_scale = 1;  // elements
  int64_t columns_a_scale = 1;
};

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

ScaleRectangle scales_of(const Plan& plan, const Task& task) {
  ScaleRectangle out;
  out.columns_a_scale = task.columns;
  switch (plan.request.scheme) {
    case Scheme::fp8_dynamic:
      out.row = task.row;
      out.rows = task.rows;
      break;
    case Scheme::fp8_block:
      out = {task.row / plan.block_rows,
             ceil_div(task.rows, plan.block_rows),
             task.column / plan.block_columns,
             ceil_div(task.columns, plan.block_columns),
             ceil_div(task.weight->part.columns, plan.block_columns),
             plan.block_rows,
             plan.block_columns};
      break;
    case Scheme::fp8_tensor:
      out.rows_a_scale = task.rows;
      break;
  }
  return out;
}

const std::array<float, 256>& decoded() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values = {};
    for (size_t code = 0; code < values.size(); ++code) {
      values[code] = numerics::decode<numerics::E4m3>(static_cast<uint8_t>(code));
    }
    return values;
  }();
  return table;
}

int64_t count_different(const std::byte* a, const std::byte* b, size_t bytes, size_t element) {
  if (std::memcmp(a, b, bytes) == 0) return 0;
  int64_t out = 0;
  for (size_t i = 0; i < bytes; i += element) {
    if (std::memcmp(a + i, b + i, element) != 0) ++out;
  }
  return out;
}

}  // namespace

void StripComparer::read(ComparedStrip* strip, const TensorPlan& tensor) {
  strip->name.clear();
  strip->problem.clear();
  strip->error = {};
  source_shards_.acquire(strip->strip.task.source_place().shard);
  work_.read(&strip->strip);
  switch (strip->strip.task.kind) {
    case TaskKind::copy:
    case TaskKind::widen_scales:
    case TaskKind::dequantize:
      return read_copy(strip, tensor);
    case TaskKind::measure:
      return;
    case TaskKind::cast:
      return read_cast(strip);
  }
}

std::vector<float> StripComparer::read_scales(const TensorPlan& tensor) {
  const std::optional<ScaleTensor> scale = find_scale(source_, source_.entry(tensor.source).name);
  if (!scale) refuse_input("{}: has no scale", shown(source_.entry(tensor.source).name));
  return widened_scales(source_.entry(scale->place), source_shards_.acquire(scale->place.shard));
}

void StripComparer::release_all() {
  source_shards_.release_all();
  result_shards_.release_all();
}

void StripComparer::compare(ComparedStrip* strip, const std::function<bool()>& stopping) const {
  work_.cast(&strip->strip, stopping);
  if (strip->name.empty() || !strip->problem.empty()) return;
  if (strip->strip.task.kind == TaskKind::cast) {
    compare_cast(strip);
  } else {
    compare_copy(strip);
  }
}

void StripComparer::read_copy(ComparedStrip* strip, const TensorPlan& tensor) {
  const Task& task = strip->strip.task;
  const OutputTensor wanted = outputs_of(plan_, source_, tensor).front();
  strip->name = wanted.name;
  const auto place = result_.find(wanted.name);
  if (!place) {
    strip->problem = "is missing";
    return;
  }
  const TensorEntry& got = result_.entry(*place);
  if (got.type != wanted.type || !std::ranges::equal(got.shape, wanted.shape)) {
    strip->problem =
        fmt::format("expected {} {}, got {} {}", to_string(wanted.type), shape_text(wanted.shape),
                    to_string(got.type), shape_text(got.shape));
    return;
  }
  const int64_t growth = task.kind == TaskKind::widen_scales ? 4 : 1;
  strip->stored.resize(static_cast<size_t>(task.bytes * growth));
  require_readable(
      result_shards_.acquire(place->shard)
          .read(got.begin + task.begin * growth, task.bytes * growth, strip->stored.data()));
}

void StripComparer::compare_copy(ComparedStrip* strip) {
  const TaskKind kind = strip->strip.task.kind;
  const HostBuffer& expected = kind == TaskKind::copy           ? strip->strip.in
                               : kind == TaskKind::widen_scales ? strip->strip.scales
                                                                : strip->strip.work;
  if (std::memcmp(strip->stored.data(), expected.data(), strip->stored.size()) != 0) {
    strip->problem = "is not that of the source";
  }
}

std::optional<StripComparer::Pair> StripComparer::find_pair(ComparedStrip* strip,
                                                            const Weight& weight) const {
  const auto codes = result_.find(strip->name);
  const auto scales = result_.find(strip->name + "_scale");
  if (!codes || !scales) {
    strip->problem = codes ? "its scale is missing" : "is missing";
    return std::nullopt;
  }
  const auto fits = [&](Place place, StoredType type, const std::vector<int64_t>& shape) {
    const TensorEntry& got = result_.entry(place);
    if (got.type == type && std::ranges::equal(got.shape, shape)) return true;
    strip->problem = fmt::format("{}: expected {} {}, got {} {}", got.name, to_string(type),
                                 shape_text(shape), to_string(got.type), shape_text(got.shape));
    return false;
  };
  if (!fits(*codes, StoredType::f8_e4m3, {weight.part.rows, weight.part.columns}) ||
      !fits(*scales, scale_type(plan_, weight.stored),
            scale_shape(plan_, weight.part.rows, weight.part.columns))) {
    return std::nullopt;
  }
  return Pair{*codes, *scales};
}

void StripComparer::read_cast(ComparedStrip* strip) {
  const Task& task = strip->strip.task;
  strip->name = task.weight->part.module + ".weight";
  strip->error.module = task.weight->part.module;
  const std::optional<Pair> pair = find_pair(strip, *task.weight);
  if (!pair) return;
  read_codes(strip, pair->codes);
  read_scales(strip, pair->scales);
}

void StripComparer::compare_cast(ComparedStrip* strip) const {
  const StoredType type = scale_type(plan_, strip->strip.task.weight->stored);
  const auto scale_bytes = static_cast<size_t>(bits_per_element(type) / 8);
  strip->error.different_codes =
      count_different(strip->stored.data(), strip->strip.codes.data(), strip->stored.size(), 1);
  strip->error.different_scales =
      count_different(strip->stored_scales.data(), strip->strip.scales.data(),
                      strip->stored_scales.size(), scale_bytes);
  add_errors(strip);
}

void StripComparer::read_codes(ComparedStrip* strip, Place place) {
  const Task& task = strip->strip.task;
  const TensorFile& file = result_shards_.acquire(place.shard);
  const int64_t all_columns = task.weight->part.columns;
  const int64_t begin = result_.entry(place).begin + task.row * all_columns + task.column;
  strip->stored.resize(static_cast<size_t>(task.rows * task.columns));
  if (task.columns == all_columns) {
    require_readable(file.read(begin, task.rows * task.columns, strip->stored.data()));
    return;
  }
  for (int64_t r = 0; r < task.rows; ++r) {
    require_readable(
        file.read(begin + r * all_columns, task.columns, strip->stored.data() + r * task.columns));
  }
}

void StripComparer::read_scales(ComparedStrip* strip, Place place) {
  const ScaleRectangle at = scales_of(plan_, strip->strip.task);
  const TensorEntry& entry = result_.entry(place);
  const int64_t size = bits_per_element(entry.type) / 8;
  const int64_t row_bytes = at.columns * size;
  const TensorFile& file = result_shards_.acquire(place.shard);
  strip->stored_scales.resize(static_cast<size_t>(at.rows * row_bytes));
  const auto read_row = [&](int64_t row, int64_t bytes, std::byte* to) {
    const int64_t first = row * at.width + at.column;
    require_readable(file.read(entry.begin + first * size, bytes, to));
  };
  if (at.columns == at.width) {  // the rows lie one behind the other
    read_row(at.row, at.rows * row_bytes, strip->stored_scales.data());
  } else {
    for (int64_t r = 0; r < at.rows; ++r) {
      read_row(at.row + r, row_bytes, strip->stored_scales.data() + r * row_bytes);
    }
  }
  strip->scales.resize(static_cast<size_t>(at.rows * at.columns));
  widen(entry.type, strip->stored_scales, strip->scales.data());
}

void StripComparer::add_errors(ComparedStrip* strip) const {
  const Task& task = strip->strip.task;
  const Weight& weight = *task.weight;
  const ScaleRectangle at = scales_of(plan_, task);
  // What was cast: decoded or transposed into `work`, or as it was read.
  const bool is_decoded = weight.stored == StoredType::f8_e4m3;
  const StoredType type = !is_decoded                                   ? weight.stored
                          : plan_.request.numerics == Numerics::precise ? StoredType::f32
                                                                        : weight.type;
  const auto& from =
      is_decoded || weight.part.column_stride != 1 ? strip->strip.work : strip->strip.in;
  const auto count = static_cast<size_t>(task.rows * task.columns);
  strip->x.resize(count);
  widen(type, {from.data(), count * static_cast<size_t>(bits_per_element(type) / 8)},
        strip->x.data());

  LayerError& error = strip->error;
  error.elements = static_cast<int64_t>(count);
  const std::array<float, 256>& values = decoded();
  size_t i = 0;
  for (int64_t r = 0; r < task.rows; ++r) {
    const float* scales = strip->scales.data() + r / at.rows_a_scale * at.columns;
    for (int64_t c = 0; c < task.columns; ++c, ++i) {
      const double x = strip->x[i];
      const auto code = std::to_integer<size_t>(strip->stored[i]);
      const double difference = x - double{values[code]} * scales[c / at.columns_a_scale];
      error.signal += x * x;
      error.noise += difference * difference;
      error.worst = std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                           : std::max(error.worst, std::abs(difference));
      error.amax = std::max(error.amax, std::abs(x));
    }
  }
}

}  // namespace rowscale::checkpoint
