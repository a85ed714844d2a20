// codes -> decode -> scale -> store, and rows of an operator stored as they are.
#include <algorithm>

#include "cpu/fp_env.hpp"
#include "cpu/operators.hpp"
#include "cpu/parallel.hpp"
#include "cpu/target.hpp"

namespace rowscale::cpu {
namespace {

// Threads and strips for operators without dynamic scales: as for scales that are given.
plan::CpuPlan plan_elementwise(Recipe recipe, const plan::RowView& rows, plan::RowUse use,
                               const Exec& exec) {
  recipe.scale_source = ScaleSource::given;
  return make_plan(recipe, rows.rows(), rows.columns(), use, exec);
}

}  // namespace

Status dequantize(const TensorView& codes_view, const TensorView& scales_view, const Recipe& recipe,
                  const TensorView& y_view, const Exec& exec) {
  const ScopedFpEnv env;
  const plan::RowView codes(codes_view);
  const plan::RowView y(y_view);
  const plan::ScaleGrid grid(recipe, codes.rows_per_batch(), codes.columns());
  const plan::ScaleView scales(recipe, grid, scales_view.data);
  const plan::CpuPlan plan = plan_elementwise(recipe, codes, plan::RowUse::parts, exec);
  const DecodeFunction decode =
      kernels(plan.target).decode[index_of(recipe.format)][index_of(y.dtype())];

  parallel_for(codes.rows() * plan.items_per_row, plan.threads, [&](int64_t item) {
    const int64_t row = item / plan.items_per_row;
    if (!codes.row_exists(row)) return;
    plan::for_each_strip(plan, item, codes.columns(), [&](int64_t column, int64_t count) {
      // Load
      uint8_t code_copy[plan::kStripElements];
      const std::byte* in = codes.read(row, column, count, code_copy);
      const int64_t group = plan.unit_fits_strip() ? plan.unit : count;
      const plan::ScaleGrid::Position at = grid.at(row, column);
      float s[plan::kStripScales];
      for (int64_t u = 0; u * group < count; ++u) {
        s[u] = scales.load(at.batch, at.row, at.column + u);
      }
      // Decode and store
      Strip scratch;
      std::byte* out = y.write_target(row, column, count, &scratch);
      decode(reinterpret_cast<const uint8_t*>(in), count, group, s, out);
      y.commit(row, column, count, out);
    });
  });
  return {};
}

Status store_rows(const plan::Source& source, const TensorView& y_view, const Exec& exec) {
  const ScopedFpEnv env;
  const plan::RowView y(y_view);
  plan::Source stored = source;
  stored.row_out = y_view;
  with_source(stored, kernels(resolve_target(exec.target)), [&](const RowSource& rows) {
    const plan::CpuPlan plan = plan_elementwise(per_token(), y, rows.row_use(), exec);
    parallel_for(y.rows() * plan.items_per_row, plan.threads, [&](int64_t item) {
      const int64_t row_index = item / plan.items_per_row;
      if (!rows.rows().row_exists(row_index)) return;
      const Row row = rows.begin_row(row_index);
      plan::for_each_strip(plan, item, y.columns(), [&](int64_t column, int64_t count) {
        Strip scratch;
        rows.span(row, column, count, &scratch);
      });
      if (plan.items_per_row == 1) rows.end_row(row);
    });
  });
  return {};
}

}  // namespace rowscale::cpu
