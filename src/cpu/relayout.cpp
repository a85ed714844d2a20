// Scales from one layout and encoding to another; values stay.
#include <fmt/format.h>

#include "cpu/fp_env.hpp"
#include "cpu/operators.hpp"
#include "numerics/ue8m0.hpp"

namespace rowscale::cpu {
namespace {

struct Scales {
  Scales(const TensorView& codes, const TensorView& scales, const Recipe& recipe)
      : rows(codes),
        grid(recipe, rows.rows_per_batch(), rows.columns()),
        view(recipe, grid, scales.data) {}

  [[nodiscard]] int64_t batches() const { return grid.one_for_all ? 1 : rows.batches(); }
  // Rows of scales that cover a row of data which exists.
  [[nodiscard]] int64_t valid_rows(int64_t batch) const {
    if (grid.one_for_all) return grid.rows;
    return (rows.valid_rows(batch) + grid.unit_rows - 1) / grid.unit_rows;
  }

  plan::RowView rows;
  plan::ScaleGrid grid;
  plan::ScaleView view;
};

Status check_powers_of_two(const Scales& scales) {
  for (int64_t b = 0; b < scales.batches(); ++b) {
    for (int64_t r = 0; r < scales.valid_rows(b); ++r) {
      for (int64_t c = 0; c < scales.grid.columns; ++c) {
        const float value = scales.view.load(b, r, c);
        if (numerics::is_ue8m0_value(value)) continue;
        return {StatusCode::invalid_argument,
                fmt::format("scales_in: expected powers of two (ue8m0_f32), got {} in batch {} at "
                            "[{}, {}]",
                            value, b, r, c)};
      }
    }
  }
  return {};
}

}  // namespace

Status relayout_scales(const TensorView& codes, const TensorView& scales_in,
                       const Recipe& recipe_in, const TensorView& scales_out,
                       const Recipe& recipe_out, const Exec& /*exec*/) {
  const ScopedFpEnv env;
  const Scales in(codes, scales_in, recipe_in);
  const Scales out(codes, scales_out, recipe_out);
  if (recipe_in.encoding == ScaleEncoding::ue8m0_f32) {
    if (Status status = check_powers_of_two(in); !status.ok()) return status;
  }
  for (int64_t b = 0; b < in.batches(); ++b) {
    for (int64_t r = 0; r < in.valid_rows(b); ++r) {
      for (int64_t c = 0; c < in.grid.columns; ++c) {
        const float value = in.view.load(b, r, c);
        out.view.store(b, r, c, &value, 1);
      }
      out.view.write_row_pads(b, r);
    }
    if (!in.rows.is_masked() && in.grid.rows > 0) out.view.write_pad_rows(b);
  }
  return {};
}

}  // namespace rowscale::cpu
