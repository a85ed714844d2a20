#include "checkpoint/strip_work.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "api/checkpoint_cast.hpp"
#include "checkpoint/copy_check.hpp"
#include "checkpoint/failure.hpp"
#include "numerics/float16.hpp"
#include "numerics/fp8.hpp"
#include "numerics/scale_rule.hpp"
#include "numerics/ue8m0.hpp"
#include "rowscale/quantize.hpp"

namespace rowscale::checkpoint {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

DType dtype_of(StoredType type) {
  DType out = DType::f32;
  to_dtype(type, &out);
  return out;
}

void require(const Status& status) {
  if (status.ok()) return;
  if (status.code() == StatusCode::device_error) {
    throw Failure(FailureKind::output, status.message());
  }
  throw std::runtime_error(status.message());
}

// to[r][k] = from[k][r * step], elements of type Bits; `width` elements in a row of `from`.
template <class Bits>
void transpose(const std::byte* from, int64_t width, int64_t step, int64_t rows, int64_t columns,
               std::byte* to) {
  constexpr int64_t kTile = 32;  // lines of both sides stay in the first-level cache
  for (int64_t k0 = 0; k0 < columns; k0 += kTile) {
    for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
      for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r) {
        for (int64_t k = k0; k < std::min(k0 + kTile, columns); ++k) {
          std::memcpy(to + (r * columns + k) * int64_t{sizeof(Bits)},
                      from + (k * width + r * step) * int64_t{sizeof(Bits)}, sizeof(Bits));
        }
      }
    }
  }
}

// The recipe of the casts that the public functions do: section 9 of the numerics, `precise`.
Recipe precise_recipe(const Plan& plan, bool given) {
  Recipe recipe = plan.request.scheme == Scheme::fp8_dynamic ? per_channel()
                  : plan.request.scheme == Scheme::fp8_block
                      ? per_block(plan.block_rows, plan.block_columns)
                      : per_tensor();
  if (given) {
    recipe = per_tensor();
    recipe.scale_source = ScaleSource::given;
    return recipe;
  }
  recipe.floor = {FloorKind::if_zero, 1.0F};
  return recipe;
}

float precise_scale(float amax) {
  numerics::ScaleRule rule;
  rule.floor = FloorKind::if_zero;
  rule.floor_value = 1.0F;
  return numerics::make_scale(rule, amax);
}

bool is_finite(StoredType type, const std::byte* at) {
  if (type == StoredType::f32) {
    float value = 0.0F;
    std::memcpy(&value, at, sizeof value);
    return std::isfinite(value);
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  const uint16_t infinity = type == StoredType::bf16 ? 0x7F80 : 0x7C00;
  return (bits & infinity) != infinity;
}

}  // namespace

std::vector<float> widened_scales(const TensorEntry& entry, const std::byte* bytes) {
  const auto count = static_cast<size_t>(entry.bytes() * 8 / bits_per_element(entry.type));
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) {
    if (entry.type == StoredType::f32) {
      std::memcpy(&out[i], bytes + i * sizeof(float), sizeof(float));
    } else if (entry.type == StoredType::bf16) {
      numerics::Bf16 value{};
      std::memcpy(&value, bytes + i * sizeof value, sizeof value);
      out[i] = numerics::to_f32(value);
    } else {
      out[i] = numerics::ue8m0_decode(static_cast<uint8_t>(bytes[i]));
    }
    if (!std::isfinite(out[i])) {
      refuse_data("tensor {}: expected finite scales, got {} at {}", shown(entry.name), out[i], i);
    }
  }
  return out;
}

std::vector<float> widened_scales(const TensorEntry& entry, const TensorFile& file) {
  std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes()));
  require_readable(file.read(entry.begin, entry.bytes(), bytes.data()));
  return widened_scales(entry, bytes.data());
}

namespace {

// Of what was decoded: a NaN code, or a number beyond the dtype.
void require_finite(const Strip& strip, const TensorEntry& entry) {
  const Task& task = strip.task;
  const StoredType type = task.weight->type;
  const int64_t element = bits_per_element(type) / 8;
  for (int64_t i = 0; i < task.rows * task.columns; ++i) {
    if (is_finite(type, strip.work.data() + i * element)) continue;
    refuse_data("tensor {}: expected numbers that are finite in {}, got none at row {}, column {}",
                shown(entry.name), to_string(type), task.row + i / task.columns,
                task.column + i % task.columns);
  }
}

}  // namespace

void StripWork::read(Strip* strip) const {
  const Task& task = strip->task;
  if (task.weight) {
    read_rectangle(strip);
    return;
  }
  const TensorFile& file = model_.shards()[task.source.shard];
  const TensorEntry& entry = model_.entry(task.source);
  require_readable(
      file.read(entry.begin + task.begin, task.bytes, strip->device->room(&strip->in, task.bytes)));
}

void StripWork::read_rectangle(Strip* strip) const {
  const Task& task = strip->task;
  const Weight& weight = *task.weight;
  const WeightPart& part = weight.part;
  const TensorFile& file = model_.shards()[weight.source.shard];
  const int64_t element = bits_per_element(weight.stored) / 8;
  const int64_t base = model_.entry(weight.source).begin + part.begin * element;
  const auto read_at = [&](int64_t elements, int64_t count, std::byte* to) {
    require_readable(file.read(base + elements * element, count * element, to));
  };
  if (part.column_stride != 1) {  // one piece a column, in which the rows are side by side
    const int64_t width = (task.rows - 1) * part.row_stride + 1;
    std::byte* to = strip->device->room(&strip->in, task.columns * width * element);
    for (int64_t k = 0; k < task.columns; ++k) {
      read_at(task.row * part.row_stride + (task.column + k) * part.column_stride, width,
              to + k * width * element);
    }
    return;
  }
  std::byte* to = strip->device->room(&strip->in, task.rows * task.columns * element);
  if (task.columns == part.row_stride) {
    read_at(task.row * part.row_stride, task.rows * task.columns, to);
    return;
  }
  for (int64_t r = 0; r < task.rows; ++r) {
    read_at((task.row + r) * part.row_stride + task.column, task.columns,
            to + r * task.columns * element);
  }
}

// The rectangle as rows of contiguous elements.
const void* StripWork::in_order(Strip* strip) const {
  const Task& task = strip->task;
  const WeightPart& part = task.weight->part;
  if (part.column_stride == 1) return strip->in.data();
  const int64_t element = bits_per_element(task.weight->stored) / 8;
  std::byte* to = strip->device->room(&strip->work, task.rows * task.columns * element);
  const int64_t width = (task.rows - 1) * part.row_stride + 1;
  if (element == 2) {
    transpose<uint16_t>(strip->in.data(), width, part.row_stride, task.rows, task.columns, to);
  } else {
    transpose<uint32_t>(strip->in.data(), width, part.row_stride, task.rows, task.columns, to);
  }
  return to;
}

// Block FP8: the widened scales of the rectangle, row by row; else none.
std::vector<float> StripWork::scales_of_source(const Task& task) const {
  const Weight& weight = *task.weight;
  if (weight.source_scales.empty()) return {};
  const QuantizationConfig& source = model_.quantization();
  const int64_t across = ceil_div(weight.part.columns, source.block_columns);
  const float* first = weight.source_scales.data() + task.row / source.block_rows * across +
                       task.column / source.block_columns;
  const int64_t columns = ceil_div(task.columns, source.block_columns);
  std::vector<float> out;
  for (int64_t r = 0; r < ceil_div(task.rows, source.block_rows); ++r) {
    out.insert(out.end(), first + r * across, first + r * across + columns);
  }
  return out;
}

// The codes of block FP8 as numbers of the dtype of `out`.
void StripWork::decode(const TensorView& codes, const std::vector<float>& scales,
                       const TensorView& out, StripDevice* device) const {
  const QuantizationConfig& source = model_.quantization();
  Recipe recipe = per_block(source.block_rows, source.block_columns);
  recipe.scale_source = ScaleSource::given;
  const TensorView numbers =
      TensorView::contiguous(scales.data(), DType::f32,
                             {ceil_div(codes.shape[0], source.block_rows),
                              ceil_div(codes.shape[1], source.block_columns)});
  require(dequantize(codes, device->upload(StripRole::source_scales, numbers), recipe, out,
                     device->exec()));
}

// And where the arithmetic goes on with them.
TensorView StripWork::decoded(const TensorView& codes, const std::vector<float>& scales,
                              DType dtype, Strip* strip) const {
  StripDevice& device = *strip->device;
  const TensorView out =
      device.scratch(StripRole::decoded, &strip->work, dtype, codes.shape[0], codes.shape[1]);
  decode(codes, scales, out, &device);
  return out;
}

void StripWork::cast(Strip* strip, const std::function<bool()>& stopping) const {
  const Task& task = strip->task;
  if (task.kind == TaskKind::copy || task.kind == TaskKind::widen_scales) {
    require_sound_copy(model_, task, strip->in.data());
  }
  if (task.kind == TaskKind::copy) return;
  if (task.kind == TaskKind::widen_scales) {
    TensorEntry piece = model_.entry(task.source);
    piece.end = piece.begin + task.bytes;
    const std::vector<float> scales = widened_scales(piece, strip->in.data());
    std::memcpy(strip->device->room(&strip->scales, task.bytes * 4), scales.data(),
                scales.size() * 4);
    return;
  }
  const Weight& weight = *task.weight;
  const bool precise = plan_.request.numerics == Numerics::precise;
  const TensorEntry& entry = model_.entry(weight.source);
  StripDevice& device = *strip->device;
  const Exec exec = device.exec();
  TensorView x = device.upload(
      StripRole::input,
      TensorView::contiguous(in_order(strip), dtype_of(weight.stored), {task.rows, task.columns}));
  const std::vector<float> source_scales = scales_of_source(task);
  if (task.kind == TaskKind::dequantize) {
    const int64_t bytes = task.rows * task.columns * element_size(dtype_of(weight.type));
    const TensorView numbers =
        TensorView::contiguous(static_cast<void*>(device.room(&strip->work, bytes)),
                               dtype_of(weight.type), {task.rows, task.columns});
    decode(x, source_scales, device.result(StripRole::decoded, numbers), &device);
    device.finish();
    return require_finite(*strip, entry);
  }
  if (!source_scales.empty()) {
    x = decoded(x, source_scales, precise ? DType::f32 : dtype_of(weight.type), strip);
  }

  if (task.kind == TaskKind::measure) {
    float amax = 0.0F;
    const TensorView out = device.result(
        StripRole::amax, TensorView::contiguous(static_cast<void*>(&amax), DType::f32, {1}));
    require(api::checkpoint_absmax(x, out, exec));
    device.finish();
    task.amax->raise(amax);
    return;
  }

  const StoredType stored_scale = scale_type(plan_, weight.stored);
  const int64_t scale_bytes = bits_per_element(stored_scale) / 8;
  std::vector<int64_t> shape{1};
  if (!task.amax) shape = scale_shape(plan_, task.rows, task.columns);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const TensorView codes = device.result(
      StripRole::codes, TensorView::contiguous(device.room(&strip->codes, task.rows * task.columns),
                                               DType::e4m3, {task.rows, task.columns}));
  const TensorView host_scales = TensorView::contiguous(
      static_cast<const void*>(device.room(&strip->scales, count * scale_bytes)),
      dtype_of(stored_scale), std::span<const int64_t>(shape));
  const Recipe recipe = precise_recipe(plan_, task.amax != nullptr);
  TensorView scales;
  if (task.amax) {
    const float amax = task.amax->wait(stopping);
    if (precise) {
      const float scale = precise_scale(amax);
      std::memcpy(strip->scales.data(), &scale, sizeof scale);
    } else {
      api::checkpoint_scale(dtype_of(weight.type), amax, strip->scales.data());
    }
    scales = device.upload(StripRole::scales, host_scales);
  } else {
    scales = device.result(StripRole::scales, host_scales);
  }
  if (precise) {
    require(quantize(x, recipe, codes, scales, exec));
  } else {
    require(api::checkpoint_quantize(x, recipe, codes, scales, exec));
  }
  device.finish();

  // NaN has this code and no other element has; infinity makes its scale infinite.
  const void* nan = std::memchr(strip->codes.data(), numerics::kNanCode,
                                static_cast<size_t>(task.rows * task.columns));
  if (nan != nullptr) {
    const int64_t at = static_cast<const std::byte*>(nan) - strip->codes.data();
    refuse_data("tensor {}: expected finite numbers, got none at row {}, column {} of {}",
                shown(entry.name), task.row + at / task.columns, task.column + at % task.columns,
                weight.part.module);
  }
  for (int64_t i = 0; i < count; ++i) {
    if (is_finite(stored_scale, strip->scales.data() + i * scale_bytes)) continue;
    refuse_data("tensor {}: expected finite numbers, got an infinite one in rows {} to {} of {}",
                shown(entry.name), task.row, task.row + task.rows - 1, weight.part.module);
  }
}

}  // namespace rowscale::checkpoint
