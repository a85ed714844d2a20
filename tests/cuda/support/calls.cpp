#include "tests/cuda/support/calls.hpp"

#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "cuda/operators.hpp"
#include "plan/row_view.hpp"
#include "tests/cuda/support/plan_text.hpp"
#include "tests/support/calls.hpp"

namespace rowscale::test {
namespace {

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
  TensorView out = codes;
  out.dtype = code_dtype(c.out);
  if (c.place == Place::apart) out = shape_view(out.dtype, row_shape(codes, codes.columns()));
  const Slot scales_in = fill_scales(lane, "scales_in", codes, c.in, c.seed, c.shift.scales);
  const Slot scales_out =
      quantizer_scales(lane, "scales_out", out, c.out, c.seed + 1, c.shift.scales);
  const Slot codes_out =
      c.place == Place::apart
          ? reserve_rows(lane, "codes_out", out, c.shift.codes)
          : fill_rows(lane, "codes", out, code_pool().host + c.codes_begin, c.shift.codes);
  const Slot counts = reserve_counts(lane, c.counts);
  TensorView on_gpu = codes;
  on_gpu.device = kGpu;
  const auto difference =
      lane.compare({}, requantize_workspace_bytes(on_gpu, c.out), [&](const Side& side) {
        TensorView from = window_on(side, codes, code_pool(), c.codes_begin);
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

TensorView codes_of(const QuantizeCase& c) {
  TensorView codes = c.codes;
  if (codes.rank == 0) codes = shape_view(DType::e4m3, row_shape(c.x, c.x.columns()));
  codes.dtype = code_dtype(c.recipe);
  return codes;
}

QuantizeSlots reserve(Lane& lane, const QuantizeCase& c) {
  const TensorView codes = codes_of(c);
  QuantizeSlots slots;
  slots.codes = reserve_rows(lane, "codes", codes, c.shift.codes);
  slots.scales = quantizer_scales(lane, "scales", codes, c.recipe, c.seed, c.shift.scales);
  slots.counts = reserve_counts(lane, c.counts);
  return slots;
}

TensorView x_on(const Side& side, const QuantizeCase& c, const QuantizeSlots& slots) {
  return with_counts(window_on(side, c.x, *c.pool, c.x_begin + c.shift.x), side, slots.counts);
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
  const Slot scales = fill_scales(lane, "scales", codes, c.recipe, c.seed, c.shift.scales);
  const Slot y = reserve_rows(lane, "y", c.y, c.shift.x);
  const Slot counts = reserve_counts(lane, c.counts);
  const auto difference = lane.compare({}, 0, [&](const Side& side) {
    const TensorView from =
        with_counts(window_on(side, codes, code_pool(), c.codes_begin), side, counts);
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
  const Slot from = fill_scales(lane, "scales_in", codes, c.in, c.seed, c.shift.scales);
  const Slot to = reserve_scales(lane, "scales_out", codes, c.out, c.shift.scales);
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
