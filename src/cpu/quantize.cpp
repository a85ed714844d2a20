// source -> absmax -> scale rule -> encode -> store, on the CPU.
#include <algorithm>
#include <atomic>

#include "cpu/fp_env.hpp"
#include "cpu/operators.hpp"
#include "cpu/parallel.hpp"
#include "cpu/target.hpp"
#include "numerics/fp8.hpp"
#include "plan/scale_rule.hpp"

namespace rowscale::cpu {
namespace {

// One call: what it reads, how it walks, where it writes.
class Quantizer {
 public:
  Quantizer(const RowSource& source, const Recipe& recipe, const TensorView& codes,
            const TensorView& scales, const Exec& exec)
      : source_(source),
        recipe_(recipe),
        codes_(codes),
        grid_(recipe, codes_.rows_per_batch(), codes_.columns()),
        scales_(recipe, grid_, scales.data),
        plan_(make_plan(recipe, codes_.rows(), codes_.columns(), source.row_use(), exec)),
        kernels_(kernels(plan_.target)),
        rule_(plan::scale_rule(recipe)),
        absmax_(kernels_.absmax[index_of(source.dtype())]),
        encode_(kernels_.encode[index_of(recipe.format)][index_of(source.dtype())]) {}

  Status run() {
    if (source_.row_use() == plan::RowUse::whole && plan_.split != plan::Split::rows) {
      return {StatusCode::internal, "quantize: whole rows under scales of several rows"};
    }
    switch (plan_.split) {
      case plan::Split::rows:
        parallel_for(codes_.rows() * plan_.items_per_row, plan_.threads,
                     [this](int64_t item) { row_item(item); });
        break;
      case plan::Split::blocks:
        parallel_for(codes_.batches() * grid_.rows, plan_.threads,
                     [this](int64_t item) { block_row(item / grid_.rows, item % grid_.rows); });
        break;
      case plan::Split::tensor:
        tensor();
        return {};  // one scale, no pads
    }
    if (recipe_.scale_source == ScaleSource::dynamic) write_pad_rows();
    return {};
  }

 private:
  [[nodiscard]] bool exists(int64_t row) const { return source_.rows().row_exists(row); }
  // Part of a row or the whole of it, as the plan says.
  void row_item(int64_t item) {
    const int64_t row_index = item / plan_.items_per_row;
    if (!exists(row_index)) return;
    const Row row = source_.begin_row(row_index);
    if (!plan_.unit_fits_strip() && recipe_.scale_source == ScaleSource::dynamic) {
      for (int64_t unit = 0; unit < grid_.columns; ++unit) long_unit(row, unit);
    } else {
      plan::for_each_strip(plan_, item, codes_.columns(),
                           [&](int64_t column, int64_t count) { strip(row, column, count); });
    }
    const bool ends_row = item % plan_.items_per_row == plan_.items_per_row - 1;
    if (!ends_row) return;
    source_.end_row(row);
    if (recipe_.scale_source == ScaleSource::dynamic) {
      const plan::ScaleGrid::Position at = grid_.at(row_index, 0);
      scales_.write_row_pads(at.batch, at.row);
    }
  }

  // Whole units, or a part of one unit whose scale is given.
  void strip(const Row& row, int64_t column, int64_t count) {
    Strip scratch;
    const void* x = source_.span(row, column, count, &scratch);
    if (recipe_.granularity == Granularity::per_column) {
      encode_columns(row, column, count, x);
      return;
    }
    // The strip's units; a longer unit counts as one.
    const int64_t group = plan_.unit_fits_strip() ? plan_.unit : count;
    const int64_t units = (count + group - 1) / group;
    const plan::ScaleGrid::Position at = grid_.at(row.index, column);
    Divisors divisors;
    if (recipe_.scale_source == ScaleSource::given) {
      for (int64_t u = 0; u < units; ++u) {
        divisors.s[u] = scales_.load(at.batch, at.row, at.column + u);
      }
      kernels_.make_divisors(recipe_.quotient, units, &divisors);
    } else {
      float amax[plan::kStripScales];
      std::fill_n(amax, units, 0.0F);
      absmax_(x, count, group, amax);
      write_scales(at, amax, units, &divisors);
    }
    encode(row.index, column, count, group, x, divisors, ahead(row.index, column, count, x));
  }

  // From x to the strip that follows this one, in its row or in the row that is worked on after it.
  [[nodiscard]] int64_t ahead(int64_t row, int64_t column, int64_t count, const void* x,
                              int64_t rows_to_next = 1) const {
    column += count;
    if (column == codes_.columns()) {
      column = 0;
      row += rows_to_next;
    }
    const std::byte* next = row < codes_.rows() ? source_.location(row, column) : nullptr;
    return next == nullptr ? 0 : next - static_cast<const std::byte*>(x);
  }

  // A unit that is longer than a strip: its strips once for the amax, once for the codes.
  void long_unit(const Row& row, int64_t unit) {
    const int64_t begin = unit * grid_.unit_columns;
    const int64_t end = std::min(begin + grid_.unit_columns, codes_.columns());
    float amax = 0.0F;
    for_strips(begin, end, [&](int64_t column, int64_t count) {
      Strip scratch;
      absmax_(source_.span(row, column, count, &scratch), count, count, &amax);
    });
    Divisors divisors;
    write_scales(grid_.at(row.index, begin), &amax, 1, &divisors);
    for_strips(begin, end, [&](int64_t column, int64_t count) {
      Strip scratch;
      encode(row.index, column, count, count, source_.span(row, column, count, &scratch), divisors);
    });
  }

  // The tiles of one row of blocks, as many side by side as a strip holds.
  void block_row(int64_t batch, int64_t scale_row) {
    const int64_t first = batch * codes_.rows_per_batch() + scale_row * grid_.unit_rows;
    const int64_t rows =
        std::min(grid_.unit_rows, source_.rows().valid_rows(batch) - scale_row * grid_.unit_rows);
    if (rows <= 0) return;
    const int64_t width = std::max(plan_.strip, plan_.unit);
    for (int64_t begin = 0; begin < codes_.columns(); begin += width) {
      const int64_t end = std::min(begin + width, codes_.columns());
      const int64_t units = (end - begin + plan_.unit - 1) / plan_.unit;
      float amax[plan::kStripScales];
      std::fill_n(amax, units, 0.0F);
      for_tile(first, rows, begin, end, [&](int64_t, int64_t, int64_t count, const void* x) {
        absmax_(x, count, plan_.unit_fits_strip() ? plan_.unit : count, amax);
      });
      Divisors divisors;
      write_scales(grid_.at(first, begin), amax, units, &divisors);
      for_tile(first, rows, begin, end,
               [&](int64_t row, int64_t column, int64_t count, const void* x) {
                 const int64_t group = plan_.unit_fits_strip() ? plan_.unit : count;
                 encode(row, column, count, group, x, divisors,
                        ahead(row, column, count, x, grid_.unit_rows));
               });
    }
    scales_.write_row_pads(batch, scale_row);
  }

  // One scale for all: a maximum has no order, so threads may meet in any.
  void tensor() {
    std::atomic<float> amax{0.0F};
    for_all_strips([&](int64_t, int64_t, int64_t count, const void* x) {
      float mine = 0.0F;
      absmax_(x, count, count, &mine);
      float seen = amax.load(std::memory_order_relaxed);
      while (mine > seen && !amax.compare_exchange_weak(seen, mine, std::memory_order_relaxed)) {
      }
    });
    const float largest = amax.load(std::memory_order_relaxed);
    Divisors divisors;
    write_scales({0, 0, 0}, &largest, 1, &divisors);
    for_all_strips([&](int64_t row, int64_t column, int64_t count, const void* x) {
      encode(row, column, count, count, x, divisors, ahead(row, column, count, x));
    });
  }

  // visit(row, column, count, elements) for every strip of the tensor, in parallel.
  template <class Visit>
  void for_all_strips(Visit&& visit) {
    parallel_for(codes_.rows() * plan_.items_per_row, plan_.threads, [&](int64_t item) {
      const int64_t row = item / plan_.items_per_row;
      if (!exists(row)) return;
      plan::for_each_strip(plan_, item, codes_.columns(), [&](int64_t column, int64_t count) {
        Strip scratch;
        visit(row, column, count, source_.span(source_.begin_row(row), column, count, &scratch));
      });
    });
  }

  // visit(row, column, count, elements) for the strips of rows [first, first + rows) and columns
  // [begin, end).
  template <class Visit>
  void for_tile(int64_t first, int64_t rows, int64_t begin, int64_t end, Visit&& visit) {
    for (int64_t r = first; r < first + rows; ++r) {
      const Row row = source_.begin_row(r);
      for_strips(begin, end, [&](int64_t column, int64_t count) {
        Strip scratch;
        visit(r, column, count, source_.span(row, column, count, &scratch));
      });
    }
  }

  template <class Visit>
  void for_strips(int64_t begin, int64_t end, Visit&& visit) {
    for (int64_t c = begin; c < end; c += plan_.strip) visit(c, std::min(plan_.strip, end - c));
  }

  // `count` scales side by side, from position `at`.
  void write_scales(plan::ScaleGrid::Position at, const float* amax, int64_t count,
                    Divisors* divisors) {
    kernels_.make_scales(rule_, recipe_.quotient, amax, count, divisors);
    scales_.store(at.batch, at.row, at.column, divisors->s, count);
  }

  void encode(int64_t row, int64_t column, int64_t count, int64_t group, const void* x,
              const Divisors& divisors, int64_t ahead = 0) {
    uint8_t scratch[plan::kStripElements];
    std::byte* codes = codes_.write_target(row, column, count, scratch);
    encode_(x, count, group, divisors, recipe_.nan, ahead, reinterpret_cast<uint8_t*>(codes));
    codes_.commit(row, column, count, codes);
  }

  void encode_columns(const Row& row, int64_t column, int64_t count, const void* x) {
    float s[plan::kStripScales];
    for (int64_t i = 0; i < count; ++i) s[i] = scales_.load(0, 0, column + i);
    uint8_t scratch[plan::kStripElements];
    std::byte* codes = codes_.write_target(row.index, column, count, scratch);
    kernels_.encode_columns[index_of(recipe_.format)][index_of(source_.dtype())](
        x, count, s, recipe_.quotient, recipe_.nan, reinterpret_cast<uint8_t*>(codes));
    codes_.commit(row.index, column, count, codes);
  }

  // Masked calls write no row at or beyond a count, and pad rows lie beyond every count.
  void write_pad_rows() {
    if (codes_.rows_per_batch() == 0 || source_.rows().is_masked()) return;
    for (int64_t b = 0; b < codes_.batches(); ++b) scales_.write_pad_rows(b);
  }

  const RowSource& source_;
  const Recipe& recipe_;
  plan::RowView codes_;
  plan::ScaleGrid grid_;
  plan::ScaleView scales_;
  plan::CpuPlan plan_;
  const Kernels& kernels_;
  numerics::ScaleRule rule_;
  AbsmaxFunction absmax_;
  EncodeFunction encode_;
};

}  // namespace

plan::CpuPlan make_plan(const Recipe& recipe, int64_t rows, int64_t columns, plan::RowUse use,
                        const Exec& exec) {
  // More threads than this a call only delay it.
  constexpr int kMostThreads = 256;
  const int wanted = exec.threads == 0 ? available_threads() : exec.threads;
  return plan::plan_cpu(recipe, rows, columns, use, std::min(wanted, kMostThreads),
                        resolve_target(exec.target));
}

Status quantize(const plan::Source& source, const Recipe& recipe, const TensorView& codes,
                const TensorView& scales, const Exec& exec) {
  const ScopedFpEnv env;
  Status status;
  with_source(source, kernels(resolve_target(exec.target)), [&](const RowSource& rows) {
    status = Quantizer(rows, recipe, codes, scales, exec).run();
  });
  return status;
}

}  // namespace rowscale::cpu
