// codes -> decode -> scale -> store, and rows of an operator stored as they are.
#include <algorithm>

#include "cpu/fp_env.hpp"
#include "cpu/operators.hpp"
#include "cpu/parallel.hpp"
#include "cpu/target.hpp"

namespace rowscale::cpu {
namespace {

// Threads and strips for operators without dynamic scales: as for scales that are given.
plan::CpuPlan plan_elementwise(Recipe recipe, int64_t rows, int64_t columns, bool rows_are_whole,
                               const Exec& exec) {
  recipe.scale_source = ScaleSource::given;
  return plan::plan_cpu(recipe, rows, columns, rows_are_whole, exec);
}

}  // namespace

void dequantize(const TensorView& codes_view, const TensorView& scales_view, const Recipe& recipe,
                const TensorView& y_view, const Exec& exec) {
  const ScopedFpEnv env;
  const plan::RowView codes(codes_view);
  const plan::RowView y(y_view);
  const plan::ScaleGrid grid(recipe, codes.rows_per_batch(), codes.columns());
  const plan::ScaleView scales(recipe, grid, scales_view.data);
  const plan::CpuPlan plan =
      plan_elementwise(recipe, codes.rows(), codes.columns(), false, exec);
  const DecodeFunction decode =
      kernels(plan.target).decode[index_of(recipe.format)][index_of(y.dtype())];

  parallel_for(codes.rows() * plan.items_per_row, plan.threads, [&](int64_t item) {
    const int64_t row = item / plan.items_per_row;
    if (!codes.row_exists(row)) return;
    const int64_t batch = row / codes.rows_per_batch();
    const int64_t scale_row = row % codes.rows_per_batch() / grid.unit_rows;
    int64_t column = item % plan.items_per_row * plan.strip;
    const int64_t end = plan.items_per_row > 1 ? std::min(column + plan.strip, codes.columns())
                                               : codes.columns();
    while (column < end) {
      int64_t count = std::min(plan.strip, end - column);
      if (!plan.unit_fits_strip()) count = std::min(count, plan.unit - column % plan.unit);
      const int64_t group = plan.unit_fits_strip() ? plan.unit : count;
      // Load
      uint8_t code_copy[plan::kStripElements];
      const std::byte* in = codes.read(row, column, count, code_copy);
      float s[plan::kStripScales];
      const int64_t first_unit = column / grid.unit_columns;
      for (int64_t u = 0; u * group < count; ++u) {
        s[u] = scales.load(batch, scale_row, first_unit + u);
      }
      // Decode and store
      Strip scratch;
      std::byte* out = y.write_target(row, column, count, &scratch);
      decode(reinterpret_cast<const uint8_t*>(in), count, group, s, out);
      y.commit(row, column, count, out);
      column += count;
    }
  });
}

void store_rows(const RowSource& source, const TensorView& y_view, const Exec& exec) {
  const ScopedFpEnv env;
  const plan::RowView y(y_view);
  const plan::CpuPlan plan =
      plan_elementwise(per_token(), y.rows(), y.columns(), source.rows_are_whole(), exec);
  const StoredSource stored(source, y_view);
  parallel_for(y.rows() * plan.items_per_row, plan.threads, [&](int64_t item) {
    const int64_t row_index = item / plan.items_per_row;
    if (!source.rows().row_exists(row_index)) return;
    const Row row = source.begin_row(row_index);
    int64_t column = item % plan.items_per_row * plan.strip;
    const int64_t end =
        plan.items_per_row > 1 ? std::min(column + plan.strip, y.columns()) : y.columns();
    for (; column < end; column += plan.strip) {
      Strip scratch;
      stored.span(row, column, std::min(plan.strip, end - column), &scratch);
    }
  });
}

}  // namespace rowscale::cpu
