// Latent attention's rows on the GPU against the CPU's bits, which tests/api holds to the operators
// of their slices: every width, recipe and output, caches, masks, special data, graphs, refusals.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/graph.hpp"
#include "tests/cuda/support/mla_calls.hpp"
#include "tests/cuda/support/refusal_test.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};
constexpr MlaWidths kWidths[] = {{1536, 512, 64},  {1536, 512, 0},  {128, 64, 8}, {7, 5, 3},
                                 {2048, 2048, 64}, {4096, 512, 64}, {1, 1, 1}};
constexpr KvOut kKvOuts[] = {KvOut::rows, KvOut::codes, KvOut::both};
constexpr RowOut kRowOuts[] = {RowOut::absent, RowOut::stored};
constexpr MlaPlaces kPlaces[] = {MlaPlaces::apart, MlaPlaces::side_by_side,
                                 MlaPlaces::side_by_side_aligned};

const std::vector<Recipe>& q_recipes() {
  static const std::vector<Recipe> recipes = {
      per_token(),
      per_group(128),
      per_group(64),
      per_group(7),
      with(per_tensor(), ScaleSource::given),
      with(per_token(), ScaleEncoding::ue8m0),
      with(per_token(), ScaleEncoding::ue8m0_f32),
      with(per_group(128), ScaleEncoding::ue8m0),
      with(per_group(128), ScaleEncoding::ue8m0_packed),
      with(per_group(64), ScaleEncoding::ue8m0_packed),
      with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major),
      with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma),
      with(per_group(128), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma),
      with(per_token(), Format::e5m2),
      with(with(per_tensor(), ScaleSource::given), Format::e5m2),
      by_reciprocal(bounded(per_token(), {BoundKind::amax, 1.5F})),
  };
  return recipes;
}

const std::vector<Recipe>& kv_recipes() {
  static const std::vector<Recipe> recipes = {
      per_token(),
      per_group(128),
      with(per_token(), Format::e5m2),
      with(per_group(128), Format::e5m2),
      with(per_group(128), ScaleEncoding::ue8m0_packed),
      with(per_group(16), ScaleEncoding::ue8m0, ScaleLayout::column_major_tma),
      with(per_tensor(), ScaleSource::given),
      per_group(7),
  };
  return recipes;
}

// All that a call may have besides: whatever the seed chooses.
void vary(MlaCase& c) {
  Random random(c.seed);
  c.q_row = random.pick(kRowOuts);
  c.kv_out = random.pick(kKvOuts);
  c.rope = random.below(4) == 0 ? RowOut::absent : RowOut::stored;
  c.places = random.pick(kPlaces);
  c.dependent_launch = random.below(4) == 0 ? DependentLaunch::on : DependentLaunch::off;
  if (random.below(4) == 0) c.q_weight = random.pick(kFloats);
  if (random.below(4) == 0) c.kv_weight = random.pick(kFloats);
  // One NaN among the weights is one in every row; it should not be there always.
  if (random.below(8) == 0) c.weights = PoolKind::mixed;
  const auto shift = [&](DType dtype) {
    return random.below(8) == 0 ? element_size(dtype) * (1 + random.below(3)) : 0;
  };
  c.shift = {shift(c.x.dtype), shift(c.q_weight), shift(c.kv_weight), shift(c.x.dtype)};
}

class FusedMla : public GpuTest {};

TEST_F(FusedMla, Cross) {
  std::vector<MlaCase> cases;
  for (const MlaWidths& widths : kWidths) {
    for (int64_t rows : {0, 1, 2, 17, 133}) {
      for (const Recipe& q : q_recipes()) {
        for (DType dtype : kFloats) {
          for (PoolKind kind : kAllPoolKinds) {
            const Recipe& kv = kv_recipes()[cases.size() % kv_recipes().size()];
            cases.push_back(
                mla_case(widths, q, kv, data_pool(kind, dtype), dtype, {rows}, cases.size()));
            vary(cases.back());
          }
        }
      }
    }
  }
  run_all(cases, compare_mla);
}

// Every set of outputs, in every place, for rows in registers and for those that are read again.
TEST_F(FusedMla, EveryOutput) {
  std::vector<MlaCase> cases;
  for (const MlaWidths& widths : {kWidths[0], kWidths[2], kWidths[3], kWidths[5]}) {
    for (DType dtype : kFloats) {
      for (const Recipe& kv : kv_recipes()) {
        for (RowOut q_row : kRowOuts) {
          for (KvOut kv_out : kKvOuts) {
            for (RowOut rope : kRowOuts) {
              for (MlaPlaces places : kPlaces) {
                for (int64_t elements : {0, 1}) {
                  MlaCase c = mla_case(widths, per_token(), kv, data_pool(PoolKind::finite, dtype),
                                       dtype, {9}, cases.size());
                  c.q_row = q_row;
                  c.kv_out = kv_out;
                  c.rope = rope;
                  c.places = places;
                  c.shift.cache = elements * element_size(dtype);
                  cases.push_back(c);
                }
              }
            }
          }
        }
      }
    }
  }
  run_all(cases, compare_mla);
}

// More rows than the blocks of a machine: each block takes several.
TEST_F(FusedMla, ManyRows) {
  constexpr int64_t kRows = 1025;
  std::vector<std::unique_ptr<SharedCopy>> pools;
  std::vector<MlaCase> cases;
  for (DType dtype : kFloats) {
    const int64_t elements = kRows * (4096 + 512 + 64) + (1 << 16);
    pools.push_back(
        std::make_unique<SharedCopy>(make_pool(PoolKind::mixed, dtype, elements, 0x31A)));
    for (const MlaWidths& widths : kWidths) {
      for (const Recipe& q : q_recipes()) {
        const Recipe& kv = kv_recipes()[cases.size() % kv_recipes().size()];
        cases.push_back(
            mla_case(widths, q, kv, pools.back()->shared(), dtype, {kRows}, cases.size()));
        vary(cases.back());
        // All outputs of the longest rows are more than an image holds.
        if (widths.q > 2048) cases.back().q_row = RowOut::absent;
      }
    }
  }
  run_all(cases, compare_mla);
}

// Rows of a wider tensor, in the middle of it.
TEST_F(FusedMla, RowsApart) {
  std::vector<MlaCase> cases;
  for (const MlaWidths& widths : kWidths) {
    for (const Recipe& q : q_recipes()) {
      for (DType dtype : kFloats) {
        for (int64_t gap : {1, 8, 24}) {
          MlaCase c = mla_case(widths, q, per_token(), data_pool(PoolKind::finite, dtype), dtype,
                               {3, 5}, cases.size());
          const int64_t pitch = widths.all() + gap;
          c.x = shape_view(dtype, {3, 5, widths.all()}, {5 * pitch + gap, pitch, 1});
          c.x_begin = window(c.seed, c.pool->size - extent_of(c.x).bytes - 64, 64);
          vary(c);
          cases.push_back(c);
        }
      }
    }
  }
  run_all(cases, compare_mla);
}

TEST_F(FusedMla, MaskedRows) {
  struct Batches {
    Shape rows;
    std::vector<int32_t> counts;
  };
  const Batches all_batches[] = {
      {{17}, {5}},
      {{17}, {0}},
      {{4, 9}, {9, 0, -1, 100}},
      {{2, 3, 4}, {1, 4, 0, 3, INT32_MAX, INT32_MIN}},
      {{3, 0}, {1, 0, 2}},
  };
  std::vector<MlaCase> cases;
  for (const Batches& batches : all_batches) {
    for (const MlaWidths& widths : kWidths) {
      for (const Recipe& q : q_recipes()) {
        for (DType dtype : kFloats) {
          const Recipe& kv = kv_recipes()[cases.size() % kv_recipes().size()];
          MlaCase c = mla_case(widths, q, kv, data_pool(PoolKind::mixed, dtype), dtype,
                               batches.rows, cases.size());
          vary(c);
          c.counts = batches.counts;
          cases.push_back(c);
        }
      }
    }
  }
  run_all(cases, compare_mla);
}

TEST_F(FusedMla, FiftyRepeats) {
  std::vector<MlaCase> cases;
  for (const Recipe& q : {per_token(), per_group(128), per_group(64)}) {
    for (KvOut kv_out : kKvOuts) {
      for (int64_t rows : {1, 133}) {
        for (int repeat = 0; repeat < 50; ++repeat) {
          MlaCase c = mla_case(kWidths[0], q, per_token(), data_pool(PoolKind::finite, DType::bf16),
                               DType::bf16, {rows}, 1);
          c.kv_out = kv_out;
          c.dependent_launch = repeat % 2 == 0 ? DependentLaunch::off : DependentLaunch::on;
          cases.push_back(c);
        }
      }
    }
  }
  run_all(cases, compare_mla);
}

// A layer's beginning in a graph: the row is projected (here: copied into place by the test), then
// normed and taken apart; each replay sees another row.
TEST_F(FusedMla, AGraphReplayedWithOtherInput) {
  Lane lane(kLaneBytes);
  for (DType dtype : kFloats) {
    for (const MlaWidths& widths : kWidths) {
      for (const Recipe& q : q_recipes()) {
        lane.reset();
        MlaCase c = mla_case(widths, q, with(per_group(128), Format::e5m2),
                             data_pool(PoolKind::finite, dtype), dtype, {33}, 1);
        vary(c);
        c.kv_out = KvOut::both;
        const MlaSlots slots = reserve(lane, c);
        const auto data_of = [&](int round) {
          const PoolKind kind = round % 2 == 0 ? PoolKind::finite : PoolKind::mixed;
          return data_pool(kind, dtype).host + int64_t{round} * 4096;
        };
        const Slot x = fill_rows(lane, "x", c.x, data_of(0), 0);
        const auto call = [&](const Side& side) {
          MlaArguments a = arguments_on(side, c, slots);
          a.x = side.view(x);
          return mla_norm_quantize(a.x, a.norm, c.q, c.kv, a.outputs, side.exec);
        };
        Exec exec;
        exec.dependent_launch = c.dependent_launch;
        const Side gpu = lane.gpu_side(exec, 0);
        const Graph graph(lane.stream(), [&] { return call(gpu); });
        ASSERT_TRUE(graph.status().ok()) << graph.status().message();
        for (int round = 0; round < 4; ++round) {
          lane.change(x, data_of(round));
          lane.poison_again();
          lane.upload();
          graph.launch(lane.stream());
          lane.download();
          lane.synchronize();
          ASSERT_TRUE(call(lane.cpu_side(exec)).ok());
          const auto difference = lane.difference();
          ASSERT_FALSE(difference)
              << "round " << round << ", " << to_string(c) << ": " << difference->text;
        }
      }
    }
  }
}

// A good call on the GPU, to be spoilt in one place.
class FusedMlaRefusals : public RefusalTest {
 protected:
  void SetUp() override {
    RefusalTest::SetUp();
    if (IsSkipped()) return;
    case_ = mla_case({256, 128, 64}, per_group(128), per_token(),
                     data_pool(PoolKind::finite, DType::bf16), DType::bf16, {4}, 3);
    case_.q_row = RowOut::stored;
    case_.kv_out = KvOut::both;
    const MlaSlots slots = reserve(*lane_, case_);
    counts_ = lane_->reserve("counts", shape_view(DType::i32, {2}), 8);
    side_ = lane_->gpu_side({}, 0);
    lane_->upload();
    lane_->synchronize();
    good_ = arguments_on(side_, case_, slots);
  }

  [[nodiscard]] Status call(const MlaArguments& a) const {
    return mla_norm_quantize(a.x, a.norm, case_.q, case_.kv, a.outputs, side_.exec);
  }

  struct Argument {
    const char* name;
    TensorView& (*of)(MlaArguments&);
  };
  static const std::vector<Argument>& arguments() {
    static const std::vector<Argument> all = {
        {"x", [](MlaArguments& a) -> TensorView& { return a.x; }},
        {"norm.q_weight", [](MlaArguments& a) -> TensorView& { return a.norm.q_weight; }},
        {"norm.kv_weight", [](MlaArguments& a) -> TensorView& { return a.norm.kv_weight; }},
        {"outputs.q_codes", [](MlaArguments& a) -> TensorView& { return a.outputs.q_codes; }},
        {"outputs.q_scales", [](MlaArguments& a) -> TensorView& { return a.outputs.q_scales; }},
        {"outputs.q_row", [](MlaArguments& a) -> TensorView& { return a.outputs.q_row; }},
        {"outputs.kv", [](MlaArguments& a) -> TensorView& { return a.outputs.kv; }},
        {"outputs.kv_codes", [](MlaArguments& a) -> TensorView& { return a.outputs.kv_codes; }},
        {"outputs.kv_scales", [](MlaArguments& a) -> TensorView& { return a.outputs.kv_scales; }},
        {"outputs.rope", [](MlaArguments& a) -> TensorView& { return a.outputs.rope; }},
    };
    return all;
  }
  // Each argument spoilt alone.
  void expect_each_refused(const std::function<std::string(const std::string&)>& part,
                           const std::function<void(TensorView&)>& spoil) {
    for (const Argument& argument : arguments()) {
      SCOPED_TRACE(argument.name);
      MlaArguments bad = good_;
      spoil(argument.of(bad));
      expect_refused(call(bad), StatusCode::invalid_argument, part(argument.name));
    }
  }

  MlaCase case_;
  MlaArguments good_;
  Slot counts_;
  Side side_;
};

TEST_F(FusedMlaRefusals, TheCallIsGood) {
  const Status status = call(good_);
  EXPECT_TRUE(status.ok()) << status.message();
  lane_->synchronize();
}

TEST_F(FusedMlaRefusals, WhereTensorsLie) {
  std::vector<std::byte> host(4 * 448 * 4);
  const auto expected = [](const std::string& name) { return name + ": expected"; };
  expect_each_refused([](const std::string&) { return "expected the device of"; },
                      [](TensorView& view) { view.device = Device{}; });
  expect_each_refused(expected, [&](TensorView& view) { view.data = host.data(); });
  expect_each_refused(expected, [](TensorView& view) { view.data = nullptr; });
}

TEST_F(FusedMlaRefusals, RowCounts) {
  const int32_t on_host = 2;
  const auto* odd = reinterpret_cast<const int32_t*>(side_.at(counts_) + 2);
  for (const int32_t* counts : {&on_host, odd}) {
    MlaArguments bad = good_;
    bad.x = bad.x.with_row_counts(counts);
    expect_refused(call(bad), StatusCode::invalid_argument, "row_counts: expected");
  }
}

TEST_F(FusedMlaRefusals, DtypesAndShapes) {
  expect_each_refused([](const std::string& name) { return name + ": expected"; },
                      [](TensorView& view) { view.dtype = DType::i32; });
  expect_each_refused([](const std::string&) { return ": expected"; },
                      [](TensorView& view) { view.shape[0] += 1; });
}

// Every output over each other tensor, by their first elements.
TEST_F(FusedMlaRefusals, OutputsThatOverlap) {
  const size_t first_output = 3;
  for (size_t i = first_output; i < arguments().size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      SCOPED_TRACE(std::string(arguments()[i].name) + " over " + arguments()[k].name);
      MlaArguments bad = good_;
      arguments()[i].of(bad).data = arguments()[k].of(good_).data;
      expect_refused(call(bad), StatusCode::invalid_argument, "overlaps");
    }
  }
}

TEST_F(FusedMlaRefusals, RecipesThatNeedEveryRowFirst) {
  for (const Recipe& recipe : {per_tensor(), per_block(128, 128)}) {
    Recipe& q = case_.q;
    const Recipe good = std::exchange(q, recipe);
    expect_refused(call(good_), StatusCode::invalid_argument, "q_recipe.granularity: expected");
    q = good;
    const Recipe good_kv = std::exchange(case_.kv, recipe);
    expect_refused(call(good_), StatusCode::invalid_argument, "kv_recipe.granularity: expected");
    case_.kv = good_kv;
  }
}

}  // namespace
}  // namespace rowscale::test
