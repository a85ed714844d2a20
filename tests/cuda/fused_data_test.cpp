// Data that norms and activations are wrong on first: rows without a sum or with an infinite one,
// every gate that a 16-bit type has, and every pair of gate and up.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};
constexpr DType kHalves[] = {DType::bf16, DType::f16};

float smallest_of(DType dtype) {
  return dtype == DType::f16 ? 0x1p-24F : dtype == DType::bf16 ? 0x1p-133F : 0x1p-149F;
}
float largest_of(DType dtype) {
  return dtype == DType::f16 ? 65504.0F : dtype == DType::bf16 ? 0x1.FEp127F : 0x1.FFFFFEp127F;
}

// A kind of row: the element at a column.
using RowKind = std::function<float(Random& random, int64_t column)>;

std::vector<RowKind> row_kinds(DType dtype) {
  const float smallest = smallest_of(dtype);
  const float largest = largest_of(dtype);
  const auto alternating = [](float value, int64_t column) {
    return column % 2 == 0 ? value : -value;
  };
  return {
      [](Random&, int64_t) { return 0.0F; },
      [](Random&, int64_t) { return -0.0F; },
      [](Random& random, int64_t) { return random.normal(); },
      [](Random& random, int64_t column) { return column == 5 ? INFINITY : random.normal(); },
      [](Random& random, int64_t column) { return column == 0 ? -INFINITY : random.normal(); },
      [](Random& random, int64_t column) { return column == 6 ? NAN : random.normal(); },
      [](Random&, int64_t) { return NAN; },
      [=](Random&, int64_t column) { return alternating(INFINITY, column); },
      [=](Random& random, int64_t) { return smallest * static_cast<float>(random.below(100)); },
      [=](Random&, int64_t column) { return alternating(smallest, column); },
      [=](Random&, int64_t column) { return alternating(largest, column); },
      // Finite squares whose sum is not, or no longer after some elements.
      [=](Random& random, int64_t) { return random.normal() * 0x1p62F; },
      [=](Random&, int64_t column) { return column == 0 ? largest * 0x1p-65F : 1.0F; },
      // Squares that vanish.
      [](Random& random, int64_t) { return random.normal() * 0x1p-70F; },
      [](Random& random, int64_t) { return random.normal() * 0x1p-76F; },
      [](Random&, int64_t column) { return column == 3 ? 1.0F : 0.0F; },
      [](Random& random, int64_t) {
        return random.normal() * (random.below(64) == 0 ? 1e3F : 1.0F);
      },
      [](Random&, int64_t) { return -0.375F; },
      [](Random& random, int64_t) { return make_value(Data::ties, random); },
  };
}

// Rows of each kind, `rounds` times, the second time in another order.
std::vector<std::byte> rows_of(DType dtype, const std::vector<RowKind>& kinds, int64_t columns,
                               int rounds) {
  Random random(columns);
  std::vector<float> values;
  values.reserve(static_cast<size_t>(rounds) * kinds.size() * static_cast<size_t>(columns));
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < kinds.size(); ++i) {
      const RowKind& kind = kinds[(i + 7 * static_cast<size_t>(round)) % kinds.size()];
      for (int64_t column = 0; column < columns; ++column) values.push_back(kind(random, column));
    }
  }
  return data_of(dtype, values);
}

std::vector<Recipe> data_recipes() {
  return {per_token(),
          with(per_token(), Format::e5m2),
          per_group(128),
          with(per_group(64), ScaleEncoding::ue8m0_packed),
          with(per_group(16), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma),
          with(per_tensor(), ScaleSource::given),
          per_group(7)};
}

class FusedData : public GpuTest {};

TEST_F(FusedData, RowsOfEveryKind) {
  const float epsilons[] = {1e-6F, 0.0F, 1e-30F, -1.0F, INFINITY, NAN};
  const float odd_weights[] = {0.0F, -0.0F, NAN, INFINITY, -INFINITY, 0x1p-149F, 3e38F, -1.0F};
  std::vector<std::unique_ptr<SharedCopy>> memory;
  const auto keep = [&](std::vector<std::byte> bytes) {
    memory.push_back(std::make_unique<SharedCopy>(std::move(bytes)));
    return &memory.back()->shared();
  };
  std::vector<FusedCase> cases;
  for (int64_t hidden : {1, 7, 8, 46, 128, 1000, 2048, 4104, 8192, 12296}) {
    std::vector<float> weights(static_cast<size_t>(hidden));
    Random random(hidden);
    for (float& weight : weights) weight = random.normal();
    const Shared* usual_weights = keep(data_of(DType::f32, weights));
    for (size_t i = 0; i < weights.size(); i += 3) weights[i] = random.pick(odd_weights);
    const Shared* other_weights = keep(data_of(DType::f32, weights));
    for (DType dtype : kFloats) {
      const std::vector<RowKind> kinds = row_kinds(dtype);
      for (const Producer& producer : kProducers) {
        const int64_t columns = hidden * producer.inputs();
        const Shared* rows = keep(rows_of(dtype, kinds, columns, 2));
        for (size_t e = 0; e < (producer.is_norm() ? std::size(epsilons) : 1); ++e) {
          for (const Recipe& recipe : data_recipes()) {
            FusedCase c{producer, recipe, rows};
            c.x = shape_view(dtype, {static_cast<int64_t>(kinds.size()), columns});
            c.producer.eps = epsilons[e];
            c.producer.weight = DType::f32;
            c.producer.form = cases.size() % 2 == 0 ? NormForm::standard : NormForm::gemma;
            c.weights = cases.size() % 3 == 0 ? other_weights : usual_weights;
            c.row_out = RowOut::stored;
            c.seed = cases.size();
            cases.push_back(c);
          }
        }
      }
    }
  }
  run_all(cases, compare_fused);
}

// Gates as patterns: a 16-bit type's all; of f32 one for each upper half.
constexpr int64_t kPatterns = 1 << 16;
constexpr int64_t kRowOfPatterns = 4096;

void store_pattern(DType dtype, uint32_t index, std::byte* at) {
  if (dtype == DType::f32) {
    const uint32_t bits = index << 16 | (index * 0x9E3779B9U) >> 16;
    std::memcpy(at, &bits, 4);
  } else {
    const auto bits = static_cast<uint16_t>(index);
    std::memcpy(at, &bits, 2);
  }
}

struct UpKind {
  std::string name;
  std::function<void(DType dtype, uint32_t gate, Random& random, std::byte* at)> store;
};

std::vector<UpKind> up_kinds() {
  std::vector<UpKind> kinds;
  const auto constant = [&](float value) {
    kinds.push_back(
        {std::to_string(value), [value](DType dtype, uint32_t /*gate*/, Random& /*random*/,
                                        std::byte* at) { store_value(dtype, value, at); }});
  };
  for (float value : {1.0F, -1.0F, 0.0F, -0.0F, 1.0078125F, 0.3F, -7.0F, 6.97F, 100.0F, 0x1p-20F,
                      65504.0F, 0x1.FEp127F, 0x1p-133F, INFINITY, -INFINITY, NAN}) {
    constant(value);
  }
  kinds.push_back({"the gate itself", [](DType dtype, uint32_t gate, Random&, std::byte* at) {
                     store_pattern(dtype, gate, at);
                   }});
  kinds.push_back({"the gates backwards", [](DType dtype, uint32_t gate, Random&, std::byte* at) {
                     store_pattern(dtype, kPatterns - 1 - gate, at);
                   }});
  for (int i = 0; i < 8; ++i) {
    kinds.push_back({"any bits", [](DType dtype, uint32_t, Random& random, std::byte* at) {
                       store_pattern(dtype, static_cast<uint32_t>(random.next() >> 48), at);
                     }});
    kinds.push_back({"normal", [](DType dtype, uint32_t, Random& random, std::byte* at) {
                       store_value(dtype, random.normal(), at);
                     }});
  }
  return kinds;
}

// Rows of `inputs` * kRowOfPatterns elements with every pattern once as the gate.
std::vector<std::byte> gates_with(const UpKind& ups, const Producer& producer, DType dtype,
                                  uint64_t seed) {
  Random random(seed);
  const int64_t size = element_size(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(kPatterns * producer.inputs() * size));
  const bool interleaved = producer.kind == plan::SourceKind::swiglu_clamped;
  for (int64_t i = 0; i < kPatterns; ++i) {
    const int64_t row = i / kRowOfPatterns * producer.inputs() * kRowOfPatterns;
    const int64_t column = i % kRowOfPatterns;
    const auto gate = static_cast<uint32_t>(i);
    store_pattern(dtype, gate, bytes.data() + (row + (interleaved ? 2 * column : column)) * size);
    if (producer.inputs() == 1) continue;
    const int64_t up = interleaved ? 2 * column + 1 : kRowOfPatterns + column;
    ups.store(dtype, gate, random, bytes.data() + (row + up) * size);
  }
  return bytes;
}

TEST_F(FusedData, EveryGate) {
  struct Case {
    UpKind ups;
    FusedCase call;
  };
  std::vector<Case> cases;
  const std::vector<UpKind> kinds = up_kinds();
  for (const UpKind& ups : kinds) {
    for (DType dtype : kFloats) {
      for (const Producer& producer : kProducers) {
        if (producer.is_norm()) continue;
        if (producer.inputs() == 1 && &ups != &kinds.front()) continue;  // it has none
        FusedCase c{producer, {}};
        c.x = shape_view(dtype, {kPatterns / kRowOfPatterns, kRowOfPatterns * producer.inputs()});
        // Parameters of others, and those with which nothing is clamped.
        if (cases.size() % 7 == 3) c.producer.swiglu = {1.0F, 2.5F};
        if (cases.size() % 7 == 5) c.producer.swiglu = {-0.3F, NAN};
        c.seed = cases.size();
        cases.push_back({ups, c});
      }
    }
  }
  run_all(cases, [](Lane& lane, const Case& c) {
    const SharedCopy gates(gates_with(c.ups, c.call.producer, c.call.x.dtype, c.call.seed));
    FusedCase call = c.call;
    call.pool = &gates.shared();
    std::string text = compare_separate(lane, call);
    for (const Recipe& recipe : data_recipes()) {
      if (!text.empty()) break;
      lane.reset();
      call.recipe = recipe;
      call.row_out = call.row_out == RowOut::stored ? RowOut::absent : RowOut::stored;
      text = compare_fused(lane, call);
    }
    return text.empty() ? text : text + "\n    ups: " + c.ups.name;
  });
}

// All 2^32 pairs of a 16-bit type. Rows lie over each other: the ups of one are the gates of the
// next. Block b holds every pattern in order from b(b-1)/2 on, so that in the row that begins with
// it each up is its gate plus b: over all rows every pair comes once.
class FusedPairs : public GpuTest, public testing::WithParamInterface<DType> {};

TEST_P(FusedPairs, OfGateAndUp) {
  constexpr int64_t kRows = 16;  // of a case
  const DType dtype = GetParam();
  run_cases(kPatterns / kRows, [&](Lane& lane, int64_t i) {
    std::vector<uint16_t> blocks(static_cast<size_t>((kRows + 1) * kPatterns));
    for (int64_t b = 0; b <= kRows; ++b) {
      const int64_t block = i * kRows + b;
      const auto begin = static_cast<uint32_t>(block * (block - 1) / 2);
      uint16_t* to = blocks.data() + b * kPatterns;
      for (int64_t c = 0; c < kPatterns; ++c) {
        to[c] = static_cast<uint16_t>(begin + static_cast<uint32_t>(c));
      }
    }
    const Slot x = fill_rows(lane, "x", shape_view(dtype, {kRows, 2 * kPatterns}, {kPatterns, 1}),
                             reinterpret_cast<const std::byte*>(blocks.data()), 0);
    const Slot y = reserve_rows(lane, "y", shape_view(dtype, {kRows, kPatterns}), 0);
    const auto difference = lane.compare(
        {}, 0, [&](const Side& side) { return silu_mul(side.view(x), side.view(y), side.exec); });
    return difference
               ? "  silu_mul, blocks from " + std::to_string(i * kRows) + ": " + difference->text
               : std::string();
  });
}

INSTANTIATE_TEST_SUITE_P(All, FusedPairs, testing::ValuesIn(kHalves),
                         [](const testing::TestParamInfo<DType>& test) {
                           return std::string(to_string(test.param));
                         });

}  // namespace
}  // namespace rowscale::test
