#include "tests/cuda/support/calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "cuda/operators.hpp"
#include "plan/row_view.hpp"
#include "tests/cuda/support/plan_text.hpp"
#include "tests/support/calls.hpp"

namespace rowscale::test {
namespace {

TensorView counts_view(const std::vector<int32_t>& counts) {
  return shape_view(DType::i32, {static_cast<int64_t>(counts.size())});
}

Slot reserve_counts(Lane& lane, const std::vector<int32_t>& counts) {
  if (counts.empty()) return {};
  return lane.fill("row counts", counts_view(counts),
                   reinterpret_cast<const std::byte*>(counts.data()),
                   static_cast<int64_t>(counts.size()) * 4);
}

TensorView with_counts(const TensorView& view, const Side& side, const Slot& counts) {
  if (counts.size == 0) return view;
  return view.with_row_counts(reinterpret_cast<const int32_t*>(side.at(counts)));
}

ScaleSpec spec_for(const TensorView& codes, const Recipe& recipe) {
  ScaleSpec spec;
  const Status status = scale_spec(codes, recipe, &spec);
  if (!status.ok()) throw std::runtime_error(status.message());
  return spec;
}

TensorView scale_shape(const ScaleSpec& spec) {
  return spec.view(static_cast<void*>(nullptr));
}

// Scales that the call reads: a window of the pool.
Slot fill_scales(Lane& lane, const char* name, const ScaleSpec& spec, ScaleEncoding encoding,
                 uint64_t seed, int64_t shift) {
  const std::vector<std::byte>& pool = scale_pool(encoding);
  const int64_t bytes = scale_bytes(spec);
  const int64_t begin = window(seed, static_cast<int64_t>(pool.size()) - bytes, 4);
  return lane.fill(name, scale_shape(spec), pool.data() + begin, bytes, shift);
}

Slot reserve_codes(Lane& lane, const char* name, const TensorView& codes, int64_t shift) {
  const Extent extent = extent_of(codes);
  return lane.reserve(name, codes, extent.bytes, extent.offset, shift);
}

std::string counts_text(const std::vector<int32_t>& counts) {
  return counts.empty() ? "" : fmt::format(" counts [{}]", fmt::join(counts, ", "));
}

std::string shift_text(const Shifts& shift) {
  if (shift.x == 0 && shift.codes == 0 && shift.scales == 0) return "";
  return fmt::format(" shifted by {}, {}, {} bytes", shift.x, shift.codes, shift.scales);
}

std::string forced_text(const plan::GpuPlan& plan) {
  return "\n    forced: " + plan::to_string(plan);
}

// Requantizes on the device of its arguments.
using RequantizeCall =
    std::function<Status(const TensorView& codes_in, const TensorView& scales_in,
                         const TensorView& codes_out, const TensorView& scales_out, const Exec&)>;

std::string compare_requantize_by(Lane& lane, const RequantizeCase& c, const RequantizeCall& gpu) {
  TensorView codes = c.codes;
  codes.dtype = code_dtype(c.in);
  const Extent extent = extent_of(codes);
  if (c.codes_begin + extent.bytes > code_pool().size) {
    throw std::runtime_error("codes lie beyond their pool");
  }
  TensorView out = codes;
  out.dtype = code_dtype(c.out);
  if (c.place == Place::apart) out = shape_view(out.dtype, row_shape(codes, codes.columns()));
  const Slot scales_in =
      fill_scales(lane, "scales_in", spec_for(codes, c.in), c.in.encoding, c.seed, c.shift.scales);
  const ScaleSpec out_spec = spec_for(out, c.out);
  const Slot scales_out =
      c.out.scale_source == ScaleSource::given
          ? fill_scales(lane, "scales_out", out_spec, c.out.encoding, c.seed + 1, c.shift.scales)
          : lane.reserve("scales_out", scale_shape(out_spec), scale_bytes(out_spec), 0,
                         c.shift.scales);
  Slot codes_out =
      c.place == Place::apart
          ? reserve_codes(lane, "codes_out", out, c.shift.codes)
          : lane.fill("codes", out, code_pool().host + c.codes_begin, extent.bytes, c.shift.codes);
  codes_out.offset = c.place == Place::apart ? codes_out.offset : extent.offset;
  const Slot counts = reserve_counts(lane, c.counts);
  TensorView on_gpu = codes;
  on_gpu.device = kGpu;
  const auto difference =
      lane.compare({}, requantize_workspace_bytes(on_gpu, c.out), [&](const Side& side) {
        TensorView from = side.view(codes, code_pool(), c.codes_begin + extent.offset);
        if (c.place == Place::in_place) from.data = side.view(codes_out).data;
        from = with_counts(from, side, counts);
        if (side.is_gpu()) {
          return gpu(from, side.view(scales_in), side.view(codes_out), side.view(scales_out),
                     side.exec);
        }
        return requantize(from, side.view(scales_in), c.in, side.view(codes_out),
                          side.view(scales_out), c.out, side.exec);
      });
  if (!difference) return {};
  return fmt::format("  requantize {} {}\n    to {}\n    codes {} at byte {}{}{}\n    {}",
                     c.place == Place::in_place ? "in place" : "apart", to_string(c.in),
                     to_string(c.out), to_string(codes), c.codes_begin, shift_text(c.shift),
                     counts_text(c.counts), difference->text);
}

}  // namespace

TensorView shape_view(DType dtype, const Shape& shape) {
  return view_of(nullptr, dtype, shape);
}

TensorView shape_view(DType dtype, const Shape& shape, const Shape& strides) {
  TensorView view = shape_view(dtype, shape);
  std::copy(strides.begin(), strides.end(), view.strides);
  return view;
}

Extent extent_of(const TensorView& view) {
  int64_t low = 0;
  int64_t high = 0;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 0) return {};
    const int64_t reach = (view.shape[i] - 1) * view.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const int64_t size = element_size(view.dtype);
  return {(high - low + 1) * size, -low * size};
}

TensorView codes_of(const QuantizeCase& c) {
  TensorView codes = c.codes;
  if (codes.rank == 0) codes = shape_view(DType::e4m3, row_shape(c.x, c.x.columns()));
  codes.dtype = code_dtype(c.recipe);
  return codes;
}

QuantizeSlots reserve(Lane& lane, const QuantizeCase& c) {
  const TensorView codes = codes_of(c);
  const ScaleSpec spec = spec_for(codes, c.recipe);
  QuantizeSlots slots;
  slots.codes = reserve_codes(lane, "codes", codes, c.shift.codes);
  slots.scales =
      c.recipe.scale_source == ScaleSource::given
          ? fill_scales(lane, "scales", spec, c.recipe.encoding, c.seed, c.shift.scales)
          : lane.reserve("scales", scale_shape(spec), scale_bytes(spec), 0, c.shift.scales);
  slots.counts = reserve_counts(lane, c.counts);
  return slots;
}

TensorView x_on(const Side& side, const QuantizeCase& c, const QuantizeSlots& slots) {
  const Extent extent = extent_of(c.x);
  const int64_t begin = c.x_begin + c.shift.x;
  if (begin + extent.bytes > c.pool->size) throw std::runtime_error("x lies beyond its pool");
  return with_counts(side.view(c.x, *c.pool, begin + extent.offset), side, slots.counts);
}

Status quantize_on(const Side& side, const QuantizeCase& c, const QuantizeSlots& slots) {
  Exec exec = side.exec;
  exec.dependent_launch = c.dependent_launch;
  return quantize(x_on(side, c, slots), c.recipe, side.view(slots.codes), side.view(slots.scales),
                  exec);
}

size_t workspace_bytes(const QuantizeCase& c) {
  TensorView x = c.x;
  x.device = kGpu;
  return quantize_workspace_bytes(x, c.recipe);
}

std::string to_string(const QuantizeCase& c) {
  return fmt::format("quantize {}\n    x {} at byte {}{}{}{}\n    {}", to_string(c.recipe),
                     to_string(c.x), c.x_begin, shift_text(c.shift), counts_text(c.counts),
                     c.dependent_launch == DependentLaunch::on ? " dependent launch" : "",
                     plan_text(c));
}

std::string to_string(const Difference& difference, const QuantizeCase& c) {
  std::string text = fmt::format("  {}\n    {}", to_string(c), difference.text);
  // The element of x under a code; codes in rows of their own order are left to the coordinate.
  if (difference.slot != "codes" || c.codes.rank != 0 || difference.offset < 0) return text;
  TensorView x = c.x;
  x.data = const_cast<std::byte*>(c.pool->host) + c.x_begin + c.shift.x + extent_of(c.x).offset;
  const int64_t columns = x.columns();
  const std::byte* at =
      plan::RowView(x).address(difference.offset / columns, difference.offset % columns);
  uint32_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(element_size(x.dtype)));
  return text + fmt::format(", x 0x{:x} ({:a})", bits, load_value(x.dtype, at));
}

std::string compare_quantize(Lane& lane, const QuantizeCase& c) {
  const QuantizeSlots slots = reserve(lane, c);
  const auto difference = lane.compare(
      {}, workspace_bytes(c), [&](const Side& side) { return quantize_on(side, c, slots); });
  return difference ? to_string(*difference, c) : std::string();
}

std::string compare_forced(Lane& lane, const QuantizeCase& c, const plan::GpuPlan& plan) {
  const QuantizeSlots slots = reserve(lane, c);
  const auto difference = lane.compare({}, workspace_bytes(c), [&](const Side& side) -> Status {
    if (!side.is_gpu()) return quantize_on(side, c, slots);
    plan::Source source;
    source.x = x_on(side, c, slots);
    return cuda::quantize(source, resolve(c.recipe), side.view(slots.codes),
                          side.view(slots.scales), side.exec, plan);
  });
  return difference ? to_string(*difference, c) + forced_text(plan) : std::string();
}

std::string compare_dequantize(Lane& lane, const DequantizeCase& c) {
  TensorView codes = c.codes;
  codes.dtype = code_dtype(c.recipe);
  const Extent codes_extent = extent_of(codes);
  if (c.codes_begin + codes_extent.bytes > code_pool().size) {
    throw std::runtime_error("codes lie beyond their pool");
  }
  const Slot scales = fill_scales(lane, "scales", spec_for(codes, c.recipe), c.recipe.encoding,
                                  c.seed, c.shift.scales);
  const Extent y_extent = extent_of(c.y);
  const Slot y = lane.reserve("y", c.y, y_extent.bytes, y_extent.offset, c.shift.x);
  const Slot counts = reserve_counts(lane, c.counts);
  const auto difference = lane.compare({}, 0, [&](const Side& side) {
    const TensorView from = with_counts(
        side.view(codes, code_pool(), c.codes_begin + codes_extent.offset), side, counts);
    return dequantize(from, side.view(scales), c.recipe, side.view(y), side.exec);
  });
  if (!difference) return {};
  return fmt::format("  dequantize {}\n    codes {} at byte {}, y {}{}{}\n    {}",
                     to_string(c.recipe), to_string(codes), c.codes_begin, to_string(c.y),
                     shift_text(c.shift), counts_text(c.counts), difference->text);
}

std::string compare_requantize(Lane& lane, const RequantizeCase& c) {
  return compare_requantize_by(
      lane, c,
      [&](const TensorView& codes_in, const TensorView& scales_in, const TensorView& codes_out,
          const TensorView& scales_out, const Exec& exec) {
        return requantize(codes_in, scales_in, c.in, codes_out, scales_out, c.out, exec);
      });
}

std::string compare_forced(Lane& lane, const RequantizeCase& c, const plan::GpuPlan& plan) {
  const std::string text = compare_requantize_by(
      lane, c,
      [&](const TensorView& codes_in, const TensorView& scales_in, const TensorView& codes_out,
          const TensorView& scales_out, const Exec& exec) {
        plan::Source source;
        source.kind = plan::SourceKind::dequantized;
        source.x = codes_in;
        source.scales = scales_in;
        source.recipe = resolve(c.in);
        return cuda::quantize(source, resolve(c.out), codes_out, scales_out, exec, plan);
      });
  return text.empty() ? text : text + forced_text(plan);
}

std::string compare_relayout(Lane& lane, const RelayoutCase& c) {
  const TensorView codes = shape_view(code_dtype(c.in), c.shape);
  const Slot from =
      fill_scales(lane, "scales_in", spec_for(codes, c.in), c.in.encoding, c.seed, c.shift.scales);
  const ScaleSpec spec = spec_for(codes, c.out);
  const Slot to =
      lane.reserve("scales_out", scale_shape(spec), scale_bytes(spec), 0, c.shift.scales);
  const Slot counts = reserve_counts(lane, c.counts);
  const auto difference = lane.compare({}, 0, [&](const Side& side) {
    TensorView shape = codes;
    shape.device = side.device;
    return relayout_scales(with_counts(shape, side, counts), side.view(from), c.in, side.view(to),
                           c.out, side.exec);
  });
  if (!difference) return {};
  return fmt::format("  relayout {}\n    to {}\n    codes {}{}{}\n    {}", to_string(c.in),
                     to_string(c.out), to_string(codes), shift_text(c.shift), counts_text(c.counts),
                     difference->text);
}

}  // namespace rowscale::test
