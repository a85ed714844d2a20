// What is wrong with a call of a norm or an activation is said before any launch: a Status with the
// parameter's name, outputs and the residual as they were.
#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/support/call_parts.hpp"
#include "tests/cuda/support/data.hpp"
#include "tests/cuda/support/producers.hpp"
#include "tests/cuda/support/refusal_test.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kHidden = 256;

// A good call of an operator on the GPU, to be spoilt in one place.
struct GoodCall {
  Producer producer;
  TensorView x, weight, residual, codes, scales, row_out, y;
  Recipe recipe = per_group(128);
  Exec exec;

  [[nodiscard]] Status fused() const {
    return produce_and_quantize(producer, x, {weight, residual}, recipe, codes, scales, row_out,
                                exec);
  }
  [[nodiscard]] Status separate() const {
    return produce(producer, x, {weight, residual}, y, exec);
  }
};

using Call = Status (GoodCall::*)() const;

// A tensor of a call and its name in messages.
struct Argument {
  TensorView GoodCall::*view;
  Call call;
  const char* name;
};

std::vector<Argument> arguments_of(const Producer& producer) {
  std::vector<Argument> arguments = {
      {&GoodCall::x, &GoodCall::fused, "x"},
      {&GoodCall::codes, &GoodCall::fused, "codes"},
      {&GoodCall::scales, &GoodCall::fused, "scales"},
      {&GoodCall::row_out, &GoodCall::fused, "row_out"},
      {&GoodCall::x, &GoodCall::separate, "x"},
      {&GoodCall::y, &GoodCall::separate, "y"},
  };
  for (Call call : {&GoodCall::fused, &GoodCall::separate}) {
    if (producer.is_norm()) arguments.push_back({&GoodCall::weight, call, "norm.weight"});
    if (producer.has_residual()) arguments.push_back({&GoodCall::residual, call, "norm.residual"});
  }
  return arguments;
}

class FusedRefusals : public RefusalTest, public testing::WithParamInterface<size_t> {
 protected:
  void SetUp() override {
    RefusalTest::SetUp();
    if (IsSkipped()) return;
    good_.producer = kProducers[GetParam()];
    const TensorView rows = shape_view(DType::bf16, {kRows, kHidden});
    const TensorView codes = shape_view(DType::e4m3, {kRows, kHidden});
    const TensorView inputs = shape_view(DType::bf16, {kRows, kHidden * good_.producer.inputs()});
    const std::byte* data = data_pool(PoolKind::finite, DType::bf16).host;
    const Slot x = fill_rows(*lane_, "x", inputs, data, 0);
    const Slot codes_slot = reserve_rows(*lane_, "codes", codes, 0);
    const Slot scales = reserve_scales(*lane_, "scales", codes, good_.recipe, 0);
    const Slot row_out = reserve_rows(*lane_, "row_out", rows, 0);
    const Slot y = reserve_rows(*lane_, "y", rows, 0);
    const Slot weight = fill_rows(*lane_, "weight", shape_view(DType::bf16, {kHidden}), data, 0);
    const Slot residual = fill_rows(*lane_, "residual", rows, data, 0);
    counts_ = lane_->reserve("counts", shape_view(DType::i32, {1}), 4);
    side_ = lane_->gpu_side({}, 0);
    lane_->upload();
    lane_->synchronize();
    good_.x = side_.view(x);
    good_.codes = side_.view(codes_slot);
    good_.scales = side_.view(scales);
    good_.row_out = side_.view(row_out);
    good_.y = side_.view(y);
    if (good_.producer.is_norm()) good_.weight = side_.view(weight);
    if (good_.producer.has_residual()) good_.residual = side_.view(residual);
    good_.exec = side_.exec;
  }

  [[nodiscard]] std::vector<Argument> arguments() const { return arguments_of(good_.producer); }

  void expect_each_refused(const Argument& argument, const std::string& part,
                           const std::function<void(TensorView&)>& spoil) {
    GoodCall bad = good_;
    spoil(bad.*argument.view);
    expect_refused((bad.*argument.call)(), StatusCode::invalid_argument, part);
  }

  Side side_;
  Slot counts_;
  GoodCall good_;
};

TEST_P(FusedRefusals, TheCallIsGood) {
  for (Call call : {&GoodCall::fused, &GoodCall::separate}) {
    const Status status = (good_.*call)();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  lane_->synchronize();
}

TEST_P(FusedRefusals, WhereTensorsLie) {
  std::vector<std::byte> host(kRows * kHidden * 8);
  for (const Argument& argument : arguments()) {
    const std::string name = argument.name;
    expect_each_refused(argument, "expected the device of",
                        [](TensorView& view) { view.device = Device{}; });
    expect_each_refused(argument, name + ": expected",
                        [&](TensorView& view) { view.data = host.data(); });
    expect_each_refused(argument, name + ": expected",
                        [](TensorView& view) { view.data = nullptr; });
  }
}

TEST_P(FusedRefusals, RowCounts) {
  const int32_t on_host = 2;
  const auto* odd = reinterpret_cast<const int32_t*>(side_.at(counts_) + 2);
  for (const int32_t* counts : {&on_host, odd}) {
    GoodCall bad = good_;
    bad.x = bad.x.with_row_counts(counts);
    expect_refused(bad.fused(), StatusCode::invalid_argument, "row_counts: expected");
    expect_refused(bad.separate(), StatusCode::invalid_argument, "row_counts: expected");
  }
}

TEST_P(FusedRefusals, ShapesDtypesAndStrides) {
  for (const Argument& argument : arguments()) {
    const std::string name = argument.name;
    expect_each_refused(argument, name + ": expected",
                        [](TensorView& view) { view.dtype = DType::i32; });
    expect_each_refused(argument, ": expected", [](TensorView& view) { view.shape[0] += 1; });
    const int inner = name == "norm.weight" || name == "scales" ? 0 : 1;
    expect_each_refused(argument, name + ": expected",
                        [&](TensorView& view) { view.strides[inner] += 1; });
  }
  // A row has the dtype of x.
  for (const Argument& argument : arguments()) {
    if (argument.view == &GoodCall::y || argument.view == &GoodCall::row_out ||
        argument.view == &GoodCall::residual) {
      expect_each_refused(argument, std::string(argument.name) + ": expected",
                          [](TensorView& view) { view.dtype = DType::f16; });
    }
  }
  if (good_.producer.inputs() == 2) {
    GoodCall bad = good_;
    bad.x.shape[1] -= 1;
    expect_refused(bad.fused(), StatusCode::invalid_argument, "x: expected an even number");
    expect_refused(bad.separate(), StatusCode::invalid_argument, "x: expected an even number");
  }
}

TEST_P(FusedRefusals, RecipesThatNeedEveryRowFirst) {
  for (const Recipe& recipe : {per_tensor(), per_block(128, 128)}) {
    GoodCall bad = good_;
    bad.recipe = recipe;
    expect_refused(bad.fused(), StatusCode::invalid_argument, "recipe.granularity: expected");
  }
}

// By an element, with the end of one or the begin of the other.
TEST_P(FusedRefusals, OutputsThatOverlap) {
  const auto last_element_of = [](const TensorView& view) {
    const Extent extent = extent_of(view);
    return static_cast<void*>(static_cast<std::byte*>(view.data) + extent.bytes -
                              element_size(view.dtype));
  };
  std::vector<std::pair<TensorView GoodCall::*, TensorView GoodCall::*>> pairs = {
      {&GoodCall::codes, &GoodCall::x},        {&GoodCall::row_out, &GoodCall::x},
      {&GoodCall::codes, &GoodCall::row_out},  {&GoodCall::row_out, &GoodCall::codes},
      {&GoodCall::scales, &GoodCall::row_out}, {&GoodCall::scales, &GoodCall::codes},
  };
  if (good_.producer.is_norm()) {
    pairs.push_back({&GoodCall::codes, &GoodCall::weight});
    pairs.push_back({&GoodCall::row_out, &GoodCall::weight});
  }
  if (good_.producer.has_residual()) {
    pairs.push_back({&GoodCall::residual, &GoodCall::x});
    pairs.push_back({&GoodCall::residual, &GoodCall::row_out});
    pairs.push_back({&GoodCall::residual, &GoodCall::codes});
    pairs.push_back({&GoodCall::residual, &GoodCall::weight});
  }
  for (const auto& [moved, other] : pairs) {
    GoodCall bad = good_;
    (bad.*moved).data =  // scales keep their alignment
        moved == &GoodCall::scales ? (bad.*other).data : last_element_of(bad.*other);
    expect_refused(bad.fused(), StatusCode::invalid_argument, "overlaps");
  }
  GoodCall bad = good_;
  bad.y.data = last_element_of(bad.x);
  expect_refused(bad.separate(), StatusCode::invalid_argument, "overlaps");
  bad.y.data = bad.x.data;
  expect_refused(bad.separate(), StatusCode::invalid_argument, "overlaps");
}

INSTANTIATE_TEST_SUITE_P(All, FusedRefusals, testing::Range(size_t{0}, std::size(kProducers)),
                         [](const testing::TestParamInfo<size_t>& test) {
                           return name_of(kProducers[test.param]);
                         });

}  // namespace
}  // namespace rowscale::test
