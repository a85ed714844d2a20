#include "tests/cuda/support/mla_calls.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tests/support/calls.hpp"

namespace rowscale::test {
namespace {

int64_t round_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

// A buffer whose rows hold parts of several dtypes, one behind the other.
class SharedRows {
 public:
  SharedRows(const TensorView& x, int64_t alignment)
      : rows_(row_shape(x, 1)), alignment_(alignment) {}

  // Bytes from the begin of a row to the part's.
  int64_t append(DType dtype, int64_t width) {
    const int64_t size = element_size(dtype);
    widest_ = std::max(widest_, size);
    const int64_t begin = round_up(pitch_, std::max(alignment_, size));
    pitch_ = begin + width * size;
    return begin;
  }
  // All parts are there: a row's bytes, with a gap that stays as it was.
  void close() { pitch_ = round_up(pitch_ + 1, std::max(alignment_, widest_)); }

  [[nodiscard]] int64_t bytes() const {
    int64_t count = pitch_;
    for (int64_t size : rows_) count *= size;
    return count;
  }
  [[nodiscard]] Slot part(const Slot& buffer, int64_t begin, DType dtype, int64_t width) const {
    Shape shape = rows_;
    shape.back() = width;
    Shape strides(shape.size(), 1);
    int64_t stride = pitch_ / element_size(dtype);
    for (size_t i = shape.size() - 1; i-- > 0;) {
      strides[i] = stride;
      stride *= shape[i];
    }
    Slot slot = buffer;
    slot.view = shape_view(dtype, shape, strides);
    slot.offset = begin;
    return slot;
  }

 private:
  Shape rows_;  // and a last dimension for the columns
  int64_t alignment_;
  int64_t pitch_ = 0;
  int64_t widest_ = 1;
};

void reserve_side_by_side(Lane& lane, const MlaCase& c, MlaSlots* slots) {
  SharedRows rows(c.x, c.places == MlaPlaces::side_by_side_aligned ? 16 : 1);
  const DType dtype = c.x.dtype;
  const DType codes = code_dtype(c.kv);
  const int64_t codes_begin = c.has_kv_codes() ? rows.append(codes, c.widths.kv) : 0;
  const int64_t kv_begin = c.has_kv_rows() ? rows.append(dtype, c.widths.kv) : 0;
  const int64_t rope_begin = c.has_rope() ? rows.append(dtype, c.widths.rope) : 0;
  rows.close();
  const Slot buffer = lane.reserve("cache", {}, rows.bytes(), 0, c.shift.cache);
  if (c.has_kv_codes()) slots->kv_codes = rows.part(buffer, codes_begin, codes, c.widths.kv);
  if (c.has_kv_rows()) slots->kv = rows.part(buffer, kv_begin, dtype, c.widths.kv);
  if (c.has_rope()) slots->rope = rows.part(buffer, rope_begin, dtype, c.widths.rope);
}

void reserve_apart(Lane& lane, const MlaCase& c, MlaSlots* slots) {
  const auto rows = [&](const char* name, DType dtype, int64_t width) {
    return reserve_rows(lane, name, shape_view(dtype, row_shape(c.x, width)), 0);
  };
  if (c.has_kv_codes()) slots->kv_codes = rows("kv_codes", code_dtype(c.kv), c.widths.kv);
  if (c.has_kv_rows()) slots->kv = rows("kv", c.x.dtype, c.widths.kv);
  if (c.has_rope()) slots->rope = rows("rope", c.x.dtype, c.widths.rope);
}

TensorView weight_on(const Side& side, PoolKind kind, DType dtype, int64_t width, uint64_t seed,
                     int64_t shift) {
  const Shared& pool = data_pool(kind, dtype);
  const TensorView weight = shape_view(dtype, {width});
  const int64_t room = pool.size - extent_of(weight).bytes - shift;
  return window_on(side, weight, pool, window(seed, room, 64) + shift);
}

// Absent where the call has none.
TensorView output_on(const Side& side, const Slot& slot) {
  return slot.view.rank > 0 ? side.view(slot) : TensorView{};
}

const char* word_of(KvOut out) {
  switch (out) {
    case KvOut::rows:
      return "rows";
    case KvOut::codes:
      return "codes";
    case KvOut::both:
      return "rows and codes";
  }
  return "unknown";
}

const char* word_of(MlaPlaces places) {
  switch (places) {
    case MlaPlaces::apart:
      return "apart";
    case MlaPlaces::side_by_side:
      return "side by side";
    case MlaPlaces::side_by_side_aligned:
      return "side by side at multiples of 16 bytes";
  }
  return "unknown";
}

}  // namespace

MlaCase mla_case(const MlaWidths& widths, const Recipe& q, const Recipe& kv, const Shared& pool,
                 DType dtype, const Shape& rows, uint64_t seed) {
  MlaCase c{widths, q, kv, &pool};
  Shape shape = rows;
  shape.push_back(widths.all());
  c.x = shape_view(dtype, shape);
  c.x_begin = window(seed, pool.size - extent_of(c.x).bytes - 64, 64);
  c.q_weight = dtype;
  c.kv_weight = dtype;
  c.seed = seed;
  return c;
}

MlaSlots reserve(Lane& lane, const MlaCase& c) {
  MlaSlots slots;
  const TensorView q_codes = shape_view(code_dtype(c.q), row_shape(c.x, c.widths.q));
  slots.q_codes = reserve_rows(lane, "q_codes", q_codes, 0);
  slots.q_scales = quantizer_scales(lane, "q_scales", q_codes, c.q, c.seed, 0);
  if (c.q_row == RowOut::stored) {
    const TensorView row = shape_view(c.x.dtype, row_shape(c.x, c.widths.q));
    slots.q_row = reserve_rows(lane, "q_row", row, 0);
  }
  if (c.places == MlaPlaces::apart) {
    reserve_apart(lane, c, &slots);
  } else {
    reserve_side_by_side(lane, c, &slots);
  }
  if (c.has_kv_codes()) {
    const TensorView kv_codes = shape_view(code_dtype(c.kv), row_shape(c.x, c.widths.kv));
    slots.kv_scales = quantizer_scales(lane, "kv_scales", kv_codes, c.kv, c.seed + 1, 0);
  }
  slots.counts = reserve_counts(lane, c.counts);
  return slots;
}

MlaArguments arguments_on(const Side& side, const MlaCase& c, const MlaSlots& slots) {
  MlaArguments a;
  a.x = with_counts(window_on(side, c.x, *c.pool, c.x_begin + c.shift.x), side, slots.counts);
  a.norm.q_weight =
      weight_on(side, c.weights, c.q_weight, c.widths.q, c.seed + 2, c.shift.q_weight);
  a.norm.kv_weight =
      weight_on(side, c.weights, c.kv_weight, c.widths.kv, c.seed + 3, c.shift.kv_weight);
  a.norm.q_eps = 1e-5F;
  a.norm.kv_eps = 1e-3F;
  a.outputs.q_codes = side.view(slots.q_codes);
  a.outputs.q_scales = side.view(slots.q_scales);
  a.outputs.q_row = output_on(side, slots.q_row);
  a.outputs.kv = output_on(side, slots.kv);
  a.outputs.kv_codes = output_on(side, slots.kv_codes);
  a.outputs.kv_scales = output_on(side, slots.kv_scales);
  a.outputs.rope = output_on(side, slots.rope);
  return a;
}

Status call_on(const Side& side, const MlaCase& c, const MlaSlots& slots) {
  Exec exec = side.exec;
  exec.dependent_launch = c.dependent_launch;
  const MlaArguments a = arguments_on(side, c, slots);
  return mla_norm_quantize(a.x, a.norm, c.q, c.kv, a.outputs, exec);
}

std::string to_string(const MlaCase& c) {
  return fmt::format(
      "mla {}|{}|{} weights {} {}\n    q: {}{}\n    kv: {}{}{}\n    {}, x {} at byte {}, shifted: "
      "x {}, q_weight {}, kv_weight {}, cache {} bytes{}{} seed {}",
      c.widths.q, c.widths.kv, c.widths.rope, to_string(c.q_weight), to_string(c.kv_weight),
      to_string(c.q), c.q_row == RowOut::stored ? " and the row" : "", word_of(c.kv_out),
      c.has_kv_codes() ? " by " + to_string(c.kv) : std::string(), c.has_rope() ? ", and rope" : "",
      word_of(c.places), to_string(c.x), c.x_begin, c.shift.x, c.shift.q_weight, c.shift.kv_weight,
      c.shift.cache, counts_text(c.counts),
      c.dependent_launch == DependentLaunch::on ? " dependent launch" : "", c.seed);
}

std::string compare_mla(Lane& lane, const MlaCase& c) {
  const MlaSlots slots = reserve(lane, c);
  const auto difference =
      lane.compare({}, 0, [&](const Side& side) { return call_on(side, c, slots); });
  return difference ? "  " + to_string(c) + "\n    " + difference->text : std::string();
}

}  // namespace rowscale::test
