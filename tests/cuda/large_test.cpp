// Larger than the cross's 2^20 elements: six combinations that are used in earnest, every such
// shape of the cross; and tensors of more than 2^31 elements, rows and bytes between rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/shapes.hpp"
#include "tests/cuda/support/tiled.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

// One case after the other in a lane of its own; the CPU takes all its threads.
std::string compare_large(Lane& lane, const QuantizeCase& c) {
  lane.reset();
  const QuantizeSlots slots = reserve(lane, c);
  Exec exec;
  exec.threads = 0;
  const auto difference = lane.compare(
      exec, workspace_bytes(c), [&](const Side& side) { return quantize_on(side, c, slots); });
  return difference ? to_string(*difference, c) : std::string();
}

struct Combination {
  const char* name;
  DType dtype;
  Recipe recipe;
};

Recipe packed_vllm() {
  Recipe recipe = with(per_group(128), ScaleEncoding::ue8m0_packed);
  recipe.profile = Profile::vllm;
  return recipe;
}

// Activations for DeepGEMM on Hopper and on Blackwell, vLLM's group operator as it is, dynamic per
// token, dynamic per tensor, and weights in blocks.
std::vector<Combination> combinations() {
  return {
      {"group_tma", DType::bf16,
       with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma)},
      {"group_packed_vllm", DType::bf16, packed_vllm()},
      {"group_row_major", DType::f32, per_group(128)},
      {"token", DType::bf16, per_token()},
      {"tensor", DType::f16, with(per_tensor(), Format::e5m2)},
      {"block", DType::bf16, per_block(128, 128)},
  };
}

class Large : public GpuTest, public testing::WithParamInterface<size_t> {};

TEST_P(Large, EveryShapeBeyondTheCross) {
  const Combination combination = combinations()[GetParam()];
  const std::vector<Matrix> shapes = cross_shapes(kMostSmallElements, INT64_MAX);
  ASSERT_FALSE(shapes.empty());
  int64_t most = 0;
  for (const Matrix& shape : shapes) most = std::max(most, shape.elements());
  const int64_t x_bytes = most * element_size(combination.dtype) + (1 << 20);
  const int64_t image_bytes = most + most / 16 + (int64_t{8} << 20);  // codes and scales
  const std::string reason = too_large(x_bytes + 2 * image_bytes, x_bytes + image_bytes);
  if (!reason.empty()) GTEST_SKIP() << reason;

  // Infinities anywhere would leave a tensor's one scale infinite and all its codes alike.
  const bool one_scale = combination.recipe.granularity == Granularity::per_tensor;
  const Tiled data(one_scale ? PoolKind::finite : PoolKind::mixed, combination.dtype, x_bytes);
  Lane lane(image_bytes);
  RecordProperty("cases", std::to_string(shapes.size()));
  for (const Matrix& shape : shapes) {
    QuantizeCase c{combination.recipe, &data.shared(),
                   shape_view(combination.dtype, {shape.tokens, shape.hidden})};
    c.x_begin = window(static_cast<uint64_t>(shape.elements()), 1 << 20, 64);
    const std::string text = compare_large(lane, c);
    ASSERT_TRUE(text.empty()) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Large, testing::Range(size_t{0}, size_t{6}),
                         [](const testing::TestParamInfo<size_t>& test) {
                           return std::string(combinations()[test.param].name);
                         });

class BeyondInt32 : public GpuTest {
 protected:
  // x [tokens, hidden] with a row stride, codes with theirs.
  static void expect_equal(const Shape& shape, const Shape& strides,
                           const std::vector<Recipe>& recipes) {
    const TensorView x = shape_view(DType::bf16, shape, strides);
    const TensorView codes = shape_view(DType::e4m3, shape, strides);
    const int64_t x_bytes = extent_of(x).bytes;
    int64_t scales = 0;
    for (const Recipe& recipe : recipes) {
      ScaleSpec spec;
      ASSERT_TRUE(scale_spec(codes, recipe, &spec).ok());
      scales = std::max(scales, spec.storage * element_size(spec.dtype));
    }
    const int64_t image_bytes = extent_of(codes).bytes + scales + (int64_t{1} << 20);
    const std::string reason = too_large(x_bytes + 2 * image_bytes, x_bytes + image_bytes);
    if (!reason.empty()) GTEST_SKIP() << reason;
    const Tiled data(PoolKind::finite, DType::bf16, x_bytes);
    Lane lane(image_bytes);
    for (const Recipe& recipe : recipes) {
      QuantizeCase c{recipe, &data.shared(), x};
      c.codes = codes;
      const std::string text = compare_large(lane, c);
      ASSERT_TRUE(text.empty()) << text;
    }
  }
};

TEST_F(BeyondInt32, Elements) {
  expect_equal({131077, 16384}, {16384, 1},
               {with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma),
                per_token(), with(per_group(128), ScaleEncoding::ue8m0_packed), per_block(128, 128),
                per_tensor(), with(per_token(), ScaleSource::given)});
}

TEST_F(BeyondInt32, Scales) {
  // As many scales as elements, and more of them than 2^31.
  expect_equal({262147, 8193}, {8193, 1}, {with(per_group(1), ScaleEncoding::ue8m0)});
}

TEST_F(BeyondInt32, BytesBetweenRows) {
  constexpr int64_t kStride = int64_t{1} << 20;
  expect_equal({2051, 640}, {kStride, 1},
               {per_group(128), per_token(), per_block(128, 128), per_tensor()});
}

}  // namespace
}  // namespace rowscale::test
