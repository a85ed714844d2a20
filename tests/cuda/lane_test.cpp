// The comparison itself: a call that does one thing wrong on the GPU alone is found and named.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

class Comparison : public GpuTest {
 protected:
  // What is found after the right call and then `spoil` on the GPU's side.
  static Difference found(const std::function<void(const Side&, const QuantizeSlots&)>& spoil) {
    Lane lane(kLaneBytes);
    QuantizeCase c{with(per_group(16), ScaleEncoding::f32, ScaleLayout::column_major_tma),
                   &data_pool(PoolKind::finite, DType::f32), shape_view(DType::f32, {5, 48})};
    const QuantizeSlots slots = reserve(lane, c);
    const auto difference = lane.compare({}, 64, [&](const Side& side) {
      const Status status = quantize_on(side, c, slots);
      if (side.is_gpu() && spoil) spoil(side, slots);
      return status;
    });
    return difference.value_or(Difference{"none", {}, 0});
  }

  // Turns the bits of a byte of the GPU's image around.
  static void flip(const Side& side, std::byte* at) {
    auto* stream = static_cast<cudaStream_t>(side.exec.stream);
    std::byte value{};
    check_cuda(cudaMemcpyAsync(&value, at, 1, cudaMemcpyDeviceToHost, stream), "copy");
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    value = ~value;
    check_cuda(cudaMemcpyAsync(at, &value, 1, cudaMemcpyHostToDevice, stream), "copy");
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
};

TEST_F(Comparison, FindsNothingWhereNothingIsWrong) {
  EXPECT_EQ(found(nullptr).text, "none");
}

TEST_F(Comparison, FindsACode) {
  const Difference d = found([](const Side& side, const QuantizeSlots& slots) {
    flip(side, side.at(slots.codes) + 3 * 48 + 17);
  });
  EXPECT_NE(d.text.find("codes [3, 17] e4m3"), std::string::npos) << d.text;
  EXPECT_EQ(d.slot, "codes");
  EXPECT_EQ(d.offset, 3 * 48 + 17);
}

TEST_F(Comparison, FindsAScaleAndAPad) {
  const Difference scale = found([](const Side& side, const QuantizeSlots& slots) {
    flip(side, side.at(slots.scales) + (8 + 4) * 4 + 1);  // columns are 8 floats apart
  });
  EXPECT_NE(scale.text.find("scales [4, 1] f32"), std::string::npos) << scale.text;
  const Difference pad = found([](const Side& side, const QuantizeSlots& slots) {
    flip(side, side.at(slots.scales) + (8 + 6) * 4);
  });
  EXPECT_NE(pad.text.find("scales beside its elements"), std::string::npos) << pad.text;
}

TEST_F(Comparison, FindsAGuard) {
  const Difference before = found(
      [](const Side& side, const QuantizeSlots& slots) { flip(side, side.at(slots.codes) - 1); });
  EXPECT_NE(before.text.find("a guard was written, at byte -1 of codes"), std::string::npos)
      << before.text;
  const Difference behind = found([](const Side& side, const QuantizeSlots& slots) {
    flip(side, side.at(slots.scales) + slots.scales.size);
  });
  EXPECT_NE(behind.text.find("of scales (84 bytes)"), std::string::npos) << behind.text;
}

TEST_F(Comparison, FindsTheGuardOfTheWorkspaceAndNotItsContent) {
  const auto workspace = [](const Side& side) {
    return static_cast<std::byte*>(side.exec.workspace.data);
  };
  EXPECT_EQ(
      found([&](const Side& side, const QuantizeSlots&) { flip(side, workspace(side)); }).text,
      "none");
  const Difference d = found([&](const Side& side, const QuantizeSlots&) {
    flip(side, workspace(side) + side.exec.workspace.bytes);
  });
  EXPECT_NE(d.text.find("the guard of the workspace of 64 bytes was written at byte 64"),
            std::string::npos)
      << d.text;
}

TEST(Coordinates, OfViews) {
  const TensorView matrix = shape_view(DType::f32, {4, 6}, {10, 1});
  EXPECT_EQ(coordinate_text(matrix, (2 * 10 + 5) * 4), "[2, 5]");
  EXPECT_EQ(coordinate_text(matrix, (2 * 10 + 7) * 4), "beside its elements");
  EXPECT_EQ(coordinate_text(matrix, -4), "beside its elements");
  const TensorView reverse = shape_view(DType::e4m3, {4, 6}, {-6, 1});
  EXPECT_EQ(coordinate_text(reverse, -6 * 3 + 2), "[3, 2]");
  const TensorView columns = shape_view(DType::i32, {5, 2}, {1, 8});
  EXPECT_EQ(coordinate_text(columns, (8 + 3) * 4), "[3, 1]");
  EXPECT_EQ(coordinate_text(columns, 6 * 4), "beside its elements");
}

}  // namespace
}  // namespace rowscale::test
