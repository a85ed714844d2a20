// Mixture of experts: [experts, max_tokens, hidden] with counts on the device. Rows at or beyond a
// count are neither read nor written, whatever the count says; rows sorted by expert need nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/fused_recipes.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

struct Experts {
  Shape shape;
  std::vector<int32_t> counts;
};

// Counts of every kind in turn: none, one, some, all, below zero, beyond.
std::vector<int32_t> turning_counts(int64_t experts, int64_t most) {
  const auto all = static_cast<int32_t>(most);
  const int32_t turn[] = {0, 1, all / 2, all, -3, all + 1, 0, INT32_MAX, INT32_MIN, all - 1};
  std::vector<int32_t> counts;
  counts.reserve(static_cast<size_t>(experts));
  for (int64_t i = 0; i < experts; ++i) counts.push_back(turn[i % 10]);
  return counts;
}

std::vector<Experts> expert_shapes() {
  return {
      {{1, 64, 1024}, {17}},
      {{1, 64, 136}, {0}},
      {{1, 5, 150}, {-1}},
      {{8, 33, 512}, turning_counts(8, 33)},
      {{10, 16, 2048}, turning_counts(10, 16)},
      {{10, 5, 46}, turning_counts(10, 5)},
      {{257, 3, 128}, turning_counts(257, 3)},
      {{1025, 2, 128}, turning_counts(1025, 2)},
      {{1025, 3, 24}, turning_counts(1025, 3)},
      {{2, 0, 64}, {5, 0}},
      {{2, 3, 4, 256}, turning_counts(6, 4)},  // batches of experts
      {{300, 128}, {77}},                      // one expert without a dimension of its own
  };
}

class FusedMasks : public GpuTest {};

TEST_F(FusedMasks, Quantize) {
  std::vector<QuantizeCase> cases;
  for (const Experts& experts : expert_shapes()) {
    for (const Recipe& recipe : all_recipes(128, 128, 128)) {
      for (DType dtype : kFloats) {
        const bool dynamic_tensor = recipe.granularity == Granularity::per_tensor &&
                                    recipe.scale_source == ScaleSource::dynamic;
        QuantizeCase c{recipe,
                       &data_pool(dynamic_tensor ? PoolKind::finite : PoolKind::mixed, dtype),
                       shape_view(dtype, experts.shape)};
        c.counts = experts.counts;
        c.seed = cases.size();
        c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes, 64);
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_quantize);
}

TEST_F(FusedMasks, ProduceAndQuantize) {
  std::vector<FusedCase> cases;
  for (const Experts& experts : expert_shapes()) {
    for (const Producer& producer : kProducers) {
      for (const Recipe& recipe : fused_recipes({128, 16})) {
        for (DType dtype : kFloats) {
          FusedCase c =
              fused_case(producer, recipe, PoolKind::finite, dtype, experts.shape, cases.size());
          c.counts = experts.counts;
          c.row_out = cases.size() % 3 == 0 ? RowOut::absent : RowOut::stored;
          cases.push_back(c);
        }
      }
    }
  }
  run_all(cases, compare_fused);
  run_all(cases, compare_separate);
}

// The two sides see other rows beyond the counts: the CPU ordinary ones, the GPU NaN alone. If it
// read one of them, or let it near a scale, the results would differ.
class OtherRowsBeyond {
 public:
  OtherRowsBeyond(const TensorView& x, const std::vector<int32_t>& counts, uint64_t seed)
      : OtherRowsBeyond(data_of_rows(x, seed), x, counts) {}
  [[nodiscard]] Shared shared() const {
    return {usual_.shared().host, spoilt_.shared().device, usual_.shared().size};
  }

 private:
  OtherRowsBeyond(const std::vector<std::byte>& usual, const TensorView& x,
                  const std::vector<int32_t>& counts)
      : usual_(usual), spoilt_(spoil(usual, x, counts)) {}

  static std::vector<std::byte> data_of_rows(const TensorView& x, uint64_t seed) {
    return make_data(Data::normal, x.dtype, x.rows() * x.columns(), seed);
  }
  static std::vector<std::byte> spoil(std::vector<std::byte> bytes, const TensorView& x,
                                      const std::vector<int32_t>& counts) {
    const int64_t rows = x.shape[x.rank - 2];
    const int64_t row_bytes = x.columns() * element_size(x.dtype);
    for (size_t expert = 0; expert < counts.size(); ++expert) {
      const int64_t there = std::clamp<int64_t>(counts[expert], 0, rows);
      std::byte* from = bytes.data() + (static_cast<int64_t>(expert) * rows + there) * row_bytes;
      std::memset(from, 0xFF, static_cast<size_t>((rows - there) * row_bytes));  // NaN of any type
    }
    return bytes;
  }

  SharedCopy usual_;
  SharedCopy spoilt_;
};

TEST_F(FusedMasks, RowsBeyondTheCountsAreNotRead) {
  struct Case {
    Experts experts;
    DType dtype;
    Recipe recipe;
  };
  std::vector<Case> cases;
  for (const Experts& experts : expert_shapes()) {
    if (experts.shape[experts.shape.size() - 2] == 0) continue;
    for (const Recipe& recipe : fused_recipes({128, 7})) {
      for (DType dtype : kFloats) cases.push_back({experts, dtype, recipe});
    }
  }
  run_all(cases, [](Lane& lane, const Case& c) {
    for (const Producer& producer : kProducers) {
      FusedCase fused = fused_case(producer, c.recipe, PoolKind::finite, c.dtype, c.experts.shape,
                                   c.experts.counts.size());
      const OtherRowsBeyond rows(fused.x, c.experts.counts, 5);
      const Shared memory = rows.shared();
      fused.pool = &memory;
      fused.x_begin = 0;
      fused.counts = c.experts.counts;
      fused.row_out = RowOut::stored;
      lane.reset();
      if (std::string text = compare_fused(lane, fused); !text.empty()) return text;
    }
    QuantizeCase plain{c.recipe, nullptr, shape_view(c.dtype, c.experts.shape)};
    const OtherRowsBeyond rows(plain.x, c.experts.counts, 6);
    const Shared memory = rows.shared();
    plain.pool = &memory;
    plain.counts = c.experts.counts;
    lane.reset();
    return compare_quantize(lane, plain);
  });
}

// Rows of expert after expert in one tensor [tokens, hidden], some experts without any: the call on
// all of them gives each expert what a call on its rows alone gives, both on the GPU.
TEST_F(FusedMasks, RowsSortedByExpertNeedNothing) {
  struct Case {
    Producer producer;
    Recipe recipe;
    DType dtype;
    int64_t hidden;
  };
  const std::vector<int64_t> tokens = {3, 0, 1, 17, 0, 0, 64, 5, 129, 2};
  std::vector<Case> cases;
  for (const Producer& producer : kProducers) {
    for (const Recipe& recipe : {per_token(), per_group(128), with(per_group(16), Format::e5m2),
                                 with(per_group(64), ScaleEncoding::ue8m0)}) {
      for (DType dtype : kFloats) {
        for (int64_t hidden : {2048, 1408, 150}) cases.push_back({producer, recipe, dtype, hidden});
      }
    }
  }
  int64_t all = 0;
  for (int64_t count : tokens) all += count;
  run_all(cases, [&](Lane& lane, const Case& c) {
    FusedCase whole =
        fused_case(c.producer, c.recipe, PoolKind::finite, c.dtype, {all, c.hidden}, 9);
    whole.row_out = RowOut::stored;
    const FusedSlots slots = reserve(lane, whole, FusedCall::fused);
    const auto difference = lane.compare_on_gpu(
        {}, [&](const Side& side) { return call_on(side, whole, slots, FusedCall::fused); },
        [&](const Side& side) {
          Status status;
          int64_t row = 0;
          for (int64_t count : tokens) {
            FusedCase part = whole;
            part.x.shape[0] = count;
            part.x_begin += row * part.x.strides[0] * element_size(c.dtype);
            FusedSlots part_slots = slots;
            for (Slot* slot :
                 {&part_slots.residual, &part_slots.codes, &part_slots.scales, &part_slots.row}) {
              if (slot->view.rank == 0) continue;
              slot->view.shape[0] = count;
              slot->offset += row * slot->view.strides[0] * element_size(slot->view.dtype);
            }
            status = call_on(side, part, part_slots, FusedCall::fused);
            if (!status.ok()) break;
            row += count;
          }
          return status;
        });
    return difference ? "  beside each expert's rows: " + to_string(whole, FusedCall::fused) +
                            "\n    " + difference->text
                      : std::string();
  });
}

}  // namespace
}  // namespace rowscale::test
