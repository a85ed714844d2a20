// What is wrong is said before any launch: a Status with the parameter's name, outputs as they
// were, and no error left in the CUDA runtime.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cuda/operators.hpp"
#include "plan/gpu_plan.hpp"
#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/refusal_test.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 256;

// A good call of each operator on the GPU, to be spoilt in one place.
struct GoodCall {
  TensorView x, codes, scales, y, codes_out, scales_out, scales_relaid;
  Recipe recipe = per_group(128);
  Recipe recipe_out = per_token();
  Recipe recipe_relaid = with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major);
  Exec exec;

  [[nodiscard]] Status quantize() const {
    return rowscale::quantize(x, recipe, codes, scales, exec);
  }
  [[nodiscard]] Status dequantize() const {
    return rowscale::dequantize(codes, scales, recipe, y, exec);
  }
  [[nodiscard]] Status requantize() const {
    return rowscale::requantize(codes, scales, recipe, codes_out, scales_out, recipe_out, exec);
  }
  [[nodiscard]] Status relayout() const {
    return rowscale::relayout_scales(codes, scales, recipe, scales_relaid, recipe_relaid, exec);
  }
};

constexpr Status (GoodCall::*kCalls[])() const = {&GoodCall::quantize, &GoodCall::dequantize,
                                                  &GoodCall::requantize, &GoodCall::relayout};

class Refusals : public RefusalTest {
 protected:
  void SetUp() override {
    RefusalTest::SetUp();
    if (IsSkipped()) return;
    const TensorView rows = shape_view(DType::bf16, {kRows, kColumns});
    const TensorView codes = shape_view(DType::e4m3, {kRows, kColumns});
    const auto scales = [&](const char* name, const Recipe& recipe) {
      const ScaleSpec spec = spec_of(codes, recipe);
      return lane_->reserve(name, spec.view(static_cast<void*>(nullptr)), scale_bytes(spec));
    };
    const Slot x = lane_->reserve("x", rows, kRows * kColumns * 2);
    const Slot codes_slot = lane_->reserve("codes", codes, kRows * kColumns);
    const Slot scales_slot = scales("scales", good_.recipe);
    const Slot y = lane_->reserve("y", rows, kRows * kColumns * 2);
    const Slot codes_out = lane_->reserve("codes_out", codes, kRows * kColumns);
    const Slot scales_out = scales("scales_out", good_.recipe_out);
    const Slot scales_relaid = scales("scales_relaid", good_.recipe_relaid);
    counts_ = lane_->reserve("counts", shape_view(DType::i32, {1}), 4);
    side_ = lane_->gpu_side({}, 0);
    lane_->upload();
    lane_->synchronize();
    good_.x = side_.view(x);
    good_.codes = side_.view(codes_slot);
    good_.scales = side_.view(scales_slot);
    good_.y = side_.view(y);
    good_.codes_out = side_.view(codes_out);
    good_.scales_out = side_.view(scales_out);
    good_.scales_relaid = side_.view(scales_relaid);
    good_.exec = side_.exec;
  }

  // `spoil` changes one view of the call; each operator that has it refuses.
  void expect_each_refused(TensorView GoodCall::*view, Status (GoodCall::*call)() const,
                           const std::string& name, const std::function<void(TensorView&)>& spoil,
                           StatusCode code) {
    GoodCall bad = good_;
    spoil(bad.*view);
    expect_refused((bad.*call)(), code, name);
  }

  struct Argument {
    TensorView GoodCall::*view;
    Status (GoodCall::*call)() const;
    const char* name;
  };
  static std::vector<Argument> arguments() {
    return {
        {&GoodCall::x, &GoodCall::quantize, "x"},
        {&GoodCall::codes, &GoodCall::quantize, "codes"},
        {&GoodCall::scales, &GoodCall::quantize, "scales"},
        {&GoodCall::codes, &GoodCall::dequantize, "codes"},
        {&GoodCall::scales, &GoodCall::dequantize, "scales"},
        {&GoodCall::y, &GoodCall::dequantize, "y"},
        {&GoodCall::codes, &GoodCall::requantize, "codes_in"},
        {&GoodCall::scales, &GoodCall::requantize, "scales_in"},
        {&GoodCall::codes_out, &GoodCall::requantize, "codes_out"},
        {&GoodCall::scales_out, &GoodCall::requantize, "scales_out"},
        {&GoodCall::scales, &GoodCall::relayout, "scales_in"},
        {&GoodCall::scales_relaid, &GoodCall::relayout, "scales_out"},
    };
  }

  Side side_;
  Slot counts_;
  GoodCall good_;
};

TEST_F(Refusals, TheCallIsGood) {
  for (const auto& call : kCalls) {
    const Status status = (good_.*call)();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  lane_->synchronize();
}

TEST_F(Refusals, DevicesThatAreMixed) {
  for (const Argument& argument : arguments()) {
    expect_each_refused(
        argument.view, argument.call, "expected the device of",
        [](TensorView& view) { view.device = Device{}; }, StatusCode::invalid_argument);
  }
}

TEST_F(Refusals, MemoryOfTheHost) {
  std::vector<std::byte> host(kRows * kColumns * 4 + 64);
  for (const Argument& argument : arguments()) {
    expect_each_refused(
        argument.view, argument.call, std::string(argument.name) + ": expected",
        [&](TensorView& view) { view.data = host.data(); }, StatusCode::invalid_argument);
  }
  const int32_t count = 2;
  GoodCall bad = good_;
  bad.x = bad.x.with_row_counts(&count);
  bad.codes = bad.codes.with_row_counts(&count);
  for (const auto& call : kCalls) {
    expect_refused((bad.*call)(), StatusCode::invalid_argument, "row_counts: expected");
  }
}

// A kernel reads each count as a whole: at such an address it would end the context.
TEST_F(Refusals, RowCountsAtOddAddresses) {
  for (int64_t shift : {1, 2, 3}) {
    const auto* counts = reinterpret_cast<const int32_t*>(side_.at(counts_) + shift);
    GoodCall bad = good_;
    bad.x = bad.x.with_row_counts(counts);
    bad.codes = bad.codes.with_row_counts(counts);
    for (const auto& call : kCalls) {
      expect_refused((bad.*call)(), StatusCode::invalid_argument, "row_counts: expected");
    }
  }
}

// The header says that nothing else of the codes is read: their data may be anything.
TEST_F(Refusals, RelayoutReadsOnlyTheCountsOfCodes) {
  std::vector<std::byte> host(kRows * kColumns);
  GoodCall call = good_;
  call.codes = call.codes.with_row_counts(reinterpret_cast<const int32_t*>(side_.at(counts_)));
  for (void* data : {static_cast<void*>(host.data()), static_cast<void*>(nullptr),
                     static_cast<void*>(good_.scales_relaid.data)}) {
    call.codes.data = data;
    const Status status = call.relayout();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  lane_->synchronize();
}

TEST_F(Refusals, NullPointers) {
  for (const Argument& argument : arguments()) {
    expect_each_refused(
        argument.view, argument.call, std::string(argument.name) + ": expected",
        [](TensorView& view) { view.data = nullptr; }, StatusCode::invalid_argument);
  }
}

TEST_F(Refusals, DevicesThatAreNotThere) {
  for (int index : {-1, 64, 1000000}) {
    GoodCall bad = good_;
    for (TensorView* view : {&bad.x, &bad.codes, &bad.scales, &bad.y, &bad.codes_out,
                             &bad.scales_out, &bad.scales_relaid}) {
      view->device.index = index;
    }
    for (const auto& call : kCalls) {
      expect_refused((bad.*call)(), StatusCode::no_device, "device");
    }
  }
}

TEST_F(Refusals, ShapesDtypesAndStrides) {
  for (const Argument& argument : arguments()) {
    expect_each_refused(
        argument.view, argument.call, std::string(argument.name) + ": expected",
        [](TensorView& view) { view.dtype = DType::i32; }, StatusCode::invalid_argument);
    expect_each_refused(
        argument.view, argument.call, ": expected",
        [](TensorView& view) { view.shape[0] = kRows + 1; }, StatusCode::invalid_argument);
    // Columns that do not lie side by side; scales that lie in another way than the recipe's
    // layout.
    const bool is_scales = std::string(argument.name).find("scales") == 0;
    expect_each_refused(
        argument.view, argument.call, std::string(argument.name) + ": expected",
        [&](TensorView& view) { view.strides[is_scales ? 0 : 1] += 1; },
        StatusCode::invalid_argument);
  }
  // Rows of an output that share bytes.
  for (const Argument& argument :
       {Argument{&GoodCall::codes, &GoodCall::quantize, "codes"},
        Argument{&GoodCall::y, &GoodCall::dequantize, "y"},
        Argument{&GoodCall::codes_out, &GoodCall::requantize, "codes_out"}}) {
    expect_each_refused(
        argument.view, argument.call,
        std::string(argument.name) + ": expected elements that share no memory",
        [](TensorView& view) { view.strides[0] = kColumns - 1; }, StatusCode::invalid_argument);
  }
}

TEST_F(Refusals, Layouts) {
  GoodCall bad = good_;
  bad.recipe.layout = ScaleLayout::column_major;
  const std::string expected = ": expected f32 [4, 2] strides [1, 4]";
  expect_refused(bad.quantize(), StatusCode::invalid_argument, "scales" + expected);
  expect_refused(bad.dequantize(), StatusCode::invalid_argument, "scales" + expected);
  expect_refused(bad.requantize(), StatusCode::invalid_argument, "scales_in" + expected);
  expect_refused(bad.relayout(), StatusCode::invalid_argument, "scales_in" + expected);
  bad = good_;
  bad.recipe_relaid.layout = ScaleLayout::row_major;
  expect_refused(bad.relayout(), StatusCode::invalid_argument,
                 "scales_out: expected f32 [4, 2] strides [2, 1]");
  bad.recipe_relaid = per_group(64);
  expect_refused(bad.relayout(), StatusCode::invalid_argument, "recipe_out: expected");
  bad.recipe_relaid = with(per_group(128), ScaleEncoding::ue8m0);
  expect_refused(bad.relayout(), StatusCode::invalid_argument, "recipe_out.encoding: expected");
}

// By an element, with the end of one or the begin of the other.
TEST_F(Refusals, OutputsThatOverlap) {
  const auto at = [](const TensorView& view, int64_t bytes) {
    return static_cast<void*>(static_cast<std::byte*>(view.data) + bytes);
  };
  constexpr int64_t kElements = kRows * kColumns;
  struct Case {
    TensorView GoodCall::*output;
    Status (GoodCall::*call)() const;
    void* data;
    const char* message;
  };
  const std::string own = ": expected memory of its own, got memory that overlaps ";
  for (const Case& c : {
           Case{&GoodCall::codes, &GoodCall::quantize, at(good_.x, 2 * kElements - 1),
                "codes and x"},
           Case{&GoodCall::scales, &GoodCall::quantize, at(good_.x, 2 * kElements - 4),
                "scales and x"},
           Case{&GoodCall::codes, &GoodCall::quantize, good_.scales.data, "codes and scales"},
           Case{&GoodCall::y, &GoodCall::dequantize, at(good_.codes, 2 - 2 * kElements),
                "y and codes"},
           Case{&GoodCall::y, &GoodCall::dequantize, good_.scales.data, "y and scales"},
           Case{&GoodCall::codes_out, &GoodCall::requantize, at(good_.codes, 1 - kElements),
                "codes_out and codes_in"},
           Case{&GoodCall::codes_out, &GoodCall::requantize, good_.scales.data,
                "codes_out and scales_in"},
           Case{&GoodCall::scales_out, &GoodCall::requantize, at(good_.codes, kElements - 4),
                "scales_out and codes_in"},
           Case{&GoodCall::scales_relaid, &GoodCall::relayout, good_.scales.data,
                "scales_out and scales_in"},
       }) {
    GoodCall bad = good_;
    (bad.*c.output).data = c.data;
    std::string message = c.message;
    message.replace(message.find(" and "), 5, own);
    expect_refused((bad.*c.call)(), StatusCode::invalid_argument, message);
  }
}

// Dynamic per_tensor, which takes a workspace, from and to.
GoodCall with_one_scale(const GoodCall& good) {
  GoodCall call = good;
  call.recipe = per_tensor();
  call.scales = TensorView::contiguous(good.scales.data, DType::f32, {1}, kGpu);
  call.recipe_out = per_tensor();
  call.scales_out = TensorView::contiguous(good.scales_out.data, DType::f32, {1}, kGpu);
  return call;
}

TEST_F(Refusals, WorkspaceThatIsMissing) {
  GoodCall call = with_one_scale(good_);
  const size_t needed = quantize_workspace_bytes(call.x, call.recipe);
  ASSERT_GT(needed, 0U);
  EXPECT_EQ(requantize_workspace_bytes(call.codes, call.recipe_out), needed);
  const DeviceMemory memory(static_cast<int64_t>(needed) + 64);
  std::vector<std::byte> host(needed);
  for (const Workspace& workspace :
       {Workspace{nullptr, 0}, Workspace{nullptr, needed}, Workspace{memory.data(), needed - 1},
        Workspace{memory.data() + 1, needed}, Workspace{host.data(), needed}}) {
    call.exec.workspace = workspace;
    expect_refused(call.quantize(), StatusCode::invalid_argument, "exec.workspace: expected");
    expect_refused(call.requantize(), StatusCode::invalid_argument, "exec.workspace: expected");
  }
  call.exec.workspace = {memory.data(), needed};
  EXPECT_TRUE(call.quantize().ok());
  lane_->synchronize();
}

// It is written while the tensors are read.
TEST_F(Refusals, WorkspaceThatOverlaps) {
  GoodCall call = with_one_scale(good_);
  const size_t needed = quantize_workspace_bytes(call.x, call.recipe);
  for (const TensorView* tensor : {&call.x, &call.codes, &call.scales}) {
    call.exec.workspace = {tensor->data, needed};
    expect_refused(call.quantize(), StatusCode::invalid_argument, "exec.workspace");
  }
  for (const TensorView* tensor : {&call.codes, &call.scales, &call.codes_out, &call.scales_out}) {
    call.exec.workspace = {tensor->data, needed};
    expect_refused(call.requantize(), StatusCode::invalid_argument, "exec.workspace");
  }
  // By its last bytes; side by side is good.
  const DeviceMemory memory(static_cast<int64_t>(needed) + kRows * kColumns);
  call.exec.workspace = {memory.data(), needed};
  call.codes.data = memory.data() + needed - 4;
  expect_refused(call.quantize(), StatusCode::invalid_argument, "exec.workspace");
  call.codes.data = memory.data() + needed;
  const Status good = call.quantize();
  EXPECT_TRUE(good.ok()) << good.message();
  lane_->synchronize();
}

// What only the runtime finds out: a Status with the names of kernel and error, and nothing left.
TEST_F(Refusals, LaunchesThatFail) {
  plan::Source source;
  source.x = good_.x;
  const Recipe recipe = resolve(good_.recipe);
  plan::GpuProblem problem;
  ASSERT_TRUE(cuda::quantize_problem(source, recipe, good_.codes, good_.scales, &problem).ok());
  plan::GpuPlan plan = plan::plan_gpu(problem);
  const auto quantize_by = [&](const plan::GpuPlan& chosen) {
    return cuda::quantize(source, recipe, good_.codes, good_.scales, good_.exec, chosen);
  };
  plan.threads = 2048;  // more than a block may have
  const Status status = quantize_by(plan);
  expect_refused(status, StatusCode::device_error, "rowscale::cuda::quantize_groups plain bf16");
  expect_refused(status, StatusCode::device_error, "cudaErrorInvalid");

  plan = plan::plan_gpu(problem);
  plan.chunks = 77;
  expect_refused(quantize_by(plan), StatusCode::unsupported, "no kernel rowscale::cuda::");
  // And the next call is as good as ever.
  const Status good = quantize_by(plan::plan_gpu(problem));
  EXPECT_TRUE(good.ok()) << good.message();
  lane_->synchronize();
}

// Nothing is asked for where nothing is needed, and never on the CPU.
TEST_F(Refusals, WorkspaceBytes) {
  EXPECT_EQ(quantize_workspace_bytes(good_.x, per_token()), 0U);
  EXPECT_EQ(quantize_workspace_bytes(good_.x, per_group(128)), 0U);
  TensorView on_cpu = good_.x;
  on_cpu.device = Device{};
  EXPECT_EQ(quantize_workspace_bytes(on_cpu, per_tensor()), 0U);
}

}  // namespace
}  // namespace rowscale::test
