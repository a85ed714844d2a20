#include "tests/cuda/support/fused_calls.hpp"

#include <fmt/format.h>

#include "tests/support/calls.hpp"

namespace rowscale::test {
namespace {

TensorView or_contiguous(TensorView view, DType dtype, const FusedCase& c) {
  if (view.rank == 0) view = shape_view(dtype, row_shape(c.x, c.hidden()));
  view.dtype = dtype;
  return view;
}

ProducerTensors tensors_on(const Side& side, const FusedCase& c, const FusedSlots& slots) {
  ProducerTensors tensors;
  if (!c.producer.is_norm()) return tensors;
  const TensorView weight = shape_view(c.producer.weight, {c.hidden()});
  const int64_t room = c.weights->size - extent_of(weight).bytes - c.shift.weight;
  tensors.weight =
      window_on(side, weight, *c.weights, window(c.seed + 1, room, 64) + c.shift.weight);
  if (c.producer.has_residual()) tensors.residual = side.view(slots.residual);
  return tensors;
}

TensorView x_on(const Side& side, const FusedCase& c, const FusedSlots& slots) {
  return with_counts(window_on(side, c.x, *c.pool, c.x_begin + c.shift.x), side, slots.counts);
}

// Absent where the call has none.
TensorView row_on(const Side& side, const FusedSlots& slots) {
  return slots.row.view.rank > 0 ? side.view(slots.row) : TensorView{};
}

std::string shift_text(const FusedShifts& shift) {
  if (shift.x + shift.weight + shift.residual + shift.codes + shift.scales + shift.row == 0) {
    return "";
  }
  return fmt::format(" shifted: x {}, weight {}, residual {}, codes {}, scales {}, row {} bytes",
                     shift.x, shift.weight, shift.residual, shift.codes, shift.scales, shift.row);
}

std::string compare(Lane& lane, const FusedCase& c, FusedCall call) {
  const FusedSlots slots = reserve(lane, c, call);
  const auto difference =
      lane.compare({}, 0, [&](const Side& side) { return call_on(side, c, slots, call); });
  return difference ? "  " + to_string(c, call) + "\n    " + difference->text : std::string();
}

}  // namespace

FusedCase fused_case(const Producer& producer, const Recipe& recipe, PoolKind kind, DType dtype,
                     const Shape& shape, uint64_t seed, int64_t room) {
  FusedCase c{producer, recipe, &data_pool(kind, dtype)};
  Shape inputs = shape;
  inputs.back() *= producer.inputs();
  c.x = shape_view(dtype, inputs);
  c.x_begin = window(seed, c.pool->size - extent_of(c.x).bytes - room, 64);
  c.seed = seed;
  // One NaN among the weights is one in every row; it should not be there always.
  if (producer.is_norm()) {
    const bool has_specials = kind == PoolKind::mixed && seed % 4 == 0;
    c.weights = &data_pool(has_specials ? PoolKind::mixed : PoolKind::finite, producer.weight);
  }
  return c;
}

FusedSlots reserve(Lane& lane, const FusedCase& c, FusedCall call) {
  FusedSlots slots;
  if (c.producer.has_residual()) {
    const TensorView residual = or_contiguous(c.residual, c.x.dtype, c);
    const int64_t room = c.pool->size - extent_of(residual).bytes;
    slots.residual = fill_rows(lane, "residual", residual,
                               c.pool->host + window(c.seed + 2, room, 64), c.shift.residual);
  }
  if (call != FusedCall::fused || c.row_out == RowOut::stored) {
    slots.row = reserve_rows(lane, call == FusedCall::separate ? "y" : "row_out",
                             or_contiguous(c.row, c.x.dtype, c), c.shift.row);
  }
  if (call != FusedCall::separate) {
    const TensorView codes = or_contiguous(c.codes, code_dtype(c.recipe), c);
    slots.codes = reserve_rows(lane, "codes", codes, c.shift.codes);
    slots.scales = quantizer_scales(lane, "scales", codes, c.recipe, c.seed, c.shift.scales);
  }
  slots.counts = reserve_counts(lane, c.counts);
  return slots;
}

Status call_on(const Side& side, const FusedCase& c, const FusedSlots& slots, FusedCall call) {
  Exec exec = side.exec;
  exec.dependent_launch = c.dependent_launch;
  const TensorView x = x_on(side, c, slots);
  const ProducerTensors tensors = tensors_on(side, c, slots);
  const TensorView row = row_on(side, slots);
  if (call == FusedCall::fused) {
    return produce_and_quantize(c.producer, x, tensors, c.recipe, side.view(slots.codes),
                                side.view(slots.scales), row, exec);
  }
  const Status made = produce(c.producer, x, tensors, row, exec);
  if (!made.ok() || call == FusedCall::separate) return made;
  return quantize(with_counts(row, side, slots.counts), c.recipe, side.view(slots.codes),
                  side.view(slots.scales), exec);
}

plan::Source source_on(const Side& side, const FusedCase& c, const FusedSlots& slots) {
  plan::Source source;
  source.kind = c.producer.kind;
  source.x = x_on(side, c, slots);
  source.swiglu = c.producer.swiglu;
  source.row_out = row_on(side, slots);
  if (c.producer.is_norm()) source.norm = norm_of(c.producer, tensors_on(side, c, slots));
  return source;
}

std::string to_string(const FusedCase& c, FusedCall call) {
  return fmt::format("{}{}\n    x {} at byte {}{}{}{}{} seed {}", to_string(c.producer),
                     call == FusedCall::separate ? "" : "\n    " + to_string(c.recipe),
                     to_string(c.x), c.x_begin, shift_text(c.shift), counts_text(c.counts),
                     c.row_out == RowOut::stored ? " row_out" : "",
                     c.dependent_launch == DependentLaunch::on ? " dependent launch" : "", c.seed);
}

std::string compare_separate(Lane& lane, const FusedCase& c) {
  return compare(lane, c, FusedCall::separate);
}

std::string compare_fused(Lane& lane, const FusedCase& c) {
  return compare(lane, c, FusedCall::fused);
}

std::string compare_with_chain(Lane& lane, const FusedCase& c) {
  FusedCase with_row = c;
  with_row.row_out = RowOut::stored;
  const FusedSlots slots = reserve(lane, with_row, FusedCall::fused);
  const auto difference = lane.compare_on_gpu(
      {}, [&](const Side& side) { return call_on(side, with_row, slots, FusedCall::fused); },
      [&](const Side& side) { return call_on(side, with_row, slots, FusedCall::chain); });
  return difference ? "  beside the chain: " + to_string(with_row, FusedCall::fused) + "\n    " +
                          difference->text
                    : std::string();
}

}  // namespace rowscale::test
