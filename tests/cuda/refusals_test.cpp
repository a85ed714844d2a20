// What is wrong is said before any launch: a Status with the parameter's name, outputs as they
// were, and no error left in the CUDA runtime.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/support/calls.hpp"

namespace rowscale::test {
namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 256;

// A good call of each operator on the GPU, to be spoilt in one place.
struct GoodCall {
  TensorView x, codes, scales, y, codes_out, scales_out;
  Recipe recipe = per_group(128);
  Recipe recipe_out = per_token();
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
};

class Refusals : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    lane_ = std::make_unique<Lane>(1 << 20);
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
    good_.exec = side_.exec;
  }

  // The message holds `part`, nothing was written, nothing is left behind.
  void expect_refused(const Status& status, StatusCode code, const std::string& part) {
    EXPECT_EQ(to_string(status.code()), std::string(to_string(code))) << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos)
        << "expected '" << part << "' in: " << status.message();
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    lane_->download();
    lane_->synchronize();
    const auto difference = lane_->difference();
    EXPECT_FALSE(difference) << difference->text;
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
    };
  }

  std::unique_ptr<Lane> lane_;
  Side side_;
  Slot counts_;
  GoodCall good_;
};

TEST_F(Refusals, TheCallIsGood) {
  for (const auto& call : {&GoodCall::quantize, &GoodCall::dequantize, &GoodCall::requantize}) {
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
  expect_refused(bad.quantize(), StatusCode::invalid_argument, "row_counts");
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
    for (TensorView* view :
         {&bad.x, &bad.codes, &bad.scales, &bad.y, &bad.codes_out, &bad.scales_out}) {
      view->device.index = index;
    }
    for (const auto& call : {&GoodCall::quantize, &GoodCall::dequantize, &GoodCall::requantize}) {
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
  }
}

TEST_F(Refusals, WorkspaceThatIsMissing) {
  GoodCall call = good_;
  call.recipe = per_tensor();
  call.scales = TensorView::contiguous(good_.scales.data, DType::f32, {1}, kGpu);
  call.recipe_out = per_tensor();
  call.scales_out = TensorView::contiguous(good_.scales_out.data, DType::f32, {1}, kGpu);
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
