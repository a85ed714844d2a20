// Dequantize every code under every scale, requantize between recipes, relayout between layouts.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/shapes.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};

class Convert : public GpuTest {};

// A row of all 256 codes for each scale.
TEST_F(Convert, EveryCodeUnderOddScales) {
  std::vector<float> odd = {0.0F,     -0.0F,     1.0F,      -1.5F,      INFINITY,       -INFINITY,
                            NAN,      0x1p-149F, 0x1p-127F, 0x1.8p-10F, 0x1.99999ap-4F, 3.4e38F,
                            -3.4e38F, 0x1p-126F, 0x1p120F,  0x1p-20F};
  for (int exponent = -140; exponent < 128; exponent += 3) {
    odd.push_back(std::ldexp(1.0F + 0x1p-7F * static_cast<float>(exponent & 127), exponent));
  }
  const auto rows = static_cast<int64_t>(odd.size());
  std::vector<std::byte> codes(static_cast<size_t>(rows) * 256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i);
  std::vector<std::byte> bytes(256);  // as ue8m0: every exponent
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  std::vector<std::byte> all_codes(256 * 256);
  for (size_t i = 0; i < all_codes.size(); ++i) all_codes[i] = static_cast<std::byte>(i);

  Lane lane(kLaneBytes);
  for (Format format : {Format::e4m3, Format::e5m2}) {
    for (DType dtype : kFloats) {
      struct Case {
        Recipe recipe;
        int64_t rows;
        const std::byte* codes;
        const std::byte* scales;
        int64_t scale_bytes;
      };
      for (const Case& c : {Case{with(per_token(), format), rows, codes.data(),
                                 reinterpret_cast<const std::byte*>(odd.data()), rows * 4},
                            Case{with(with(per_token(), ScaleEncoding::ue8m0), format), 256,
                                 all_codes.data(), bytes.data(), 256}}) {
        lane.reset();
        const Slot from = lane.fill("codes", shape_view(code_dtype(c.recipe), {c.rows, 256}),
                                    c.codes, c.rows * 256);
        const Slot scales =
            lane.fill("scales", spec_of(from.view, c.recipe).view(static_cast<void*>(nullptr)),
                      c.scales, c.scale_bytes);
        const Slot y =
            lane.reserve("y", shape_view(dtype, {c.rows, 256}), c.rows * 256 * element_size(dtype));
        const auto difference = lane.compare({}, 0, [&](const Side& side) {
          return dequantize(side.view(from), side.view(scales), c.recipe, side.view(y), side.exec);
        });
        EXPECT_FALSE(difference) << to_string(c.recipe) << " to " << to_string(dtype) << ": "
                                 << difference->text;
      }
    }
  }
}

std::vector<Recipe> sources() {
  return {per_tensor(),
          per_token(),
          per_group(128),
          per_group(24),
          per_block(128, 128),
          with(per_group(128), ScaleEncoding::ue8m0_packed),
          with(per_group(64), ScaleEncoding::f32, ScaleLayout::column_major_tma),
          with(per_column(), Format::e5m2)};
}

std::vector<Recipe> targets() {
  std::vector<Recipe> recipes = all_recipes(128, 128, 128);
  recipes.push_back(per_group(24));
  recipes.push_back(with(per_group(16), ScaleEncoding::ue8m0_packed));
  recipes.push_back(per_block(3, 40));
  recipes.push_back(with(per_tensor(), ScaleSource::given));
  recipes.push_back(with(per_token(), ScaleSource::given));
  recipes.push_back(with(per_group(100), ScaleSource::given));
  recipes.push_back(with(per_token(), Format::e5m2));
  recipes.push_back(with(per_group(128), Format::e5m2));
  return recipes;
}

TEST_F(Convert, RequantizeApartAndInPlace) {
  std::vector<RequantizeCase> cases;
  for (const Matrix& shape : kFewShapes) {
    for (const Recipe& in : sources()) {
      for (const Recipe& out : targets()) {
        for (Place place : {Place::apart, Place::in_place}) {
          RequantizeCase c{in, out, shape_view(DType::e4m3, {shape.tokens, shape.hidden})};
          c.place = place;
          c.seed = cases.size();
          c.codes_begin = window(c.seed, code_pool().size - shape.elements(), 16);
          cases.push_back(c);
        }
      }
    }
  }
  // Rows that lie apart, heads, an odd address: in place, codes keep their strides.
  for (const Recipe& in : sources()) {
    for (const Recipe& out : targets()) {
      for (const TensorView& codes :
           {shape_view(DType::e4m3, {5, 105}, {140, 1}),
            shape_view(DType::e4m3, {6, 128}, {144, 1}),
            shape_view(DType::e4m3, {4, 5, 64}, {6 * 72, 72, 1}).as_rows({1}, {0, 2}),
            shape_view(DType::e4m3, {2, 9, 200})}) {
        for (Place place : {Place::apart, Place::in_place}) {
          RequantizeCase c{in, out, codes};
          c.place = place;
          c.seed = cases.size();
          c.shift.codes = static_cast<int64_t>(cases.size() % 3);
          cases.push_back(c);
        }
      }
    }
  }
  run_all(cases, compare_requantize);
}

// Shapes of codes by their numbers of rows and groups: pads of every width.
TEST_F(Convert, RelayoutBetweenAllLayouts) {
  std::vector<RelayoutCase> cases;
  const auto add = [&](const std::vector<Recipe>& recipes, const std::vector<Shape>& shapes) {
    for (const Shape& shape : shapes) {
      for (const Recipe& in : recipes) {
        for (const Recipe& out : recipes) {
          if (in.encoding == ScaleEncoding::f32 && out.encoding != ScaleEncoding::f32) continue;
          RelayoutCase c{in, out, shape};
          c.seed = cases.size();
          c.shift.scales = cases.size() % 7 == 0 ? 1 + static_cast<int64_t>(cases.size() % 5) : 0;
          cases.push_back(c);
        }
      }
    }
  };
  std::vector<Shape> shapes;
  for (int64_t rows : {0, 1, 2, 3, 4, 5, 15, 16, 17, 33, 128, 1025}) {
    for (int64_t groups : {1, 2, 3, 4, 5, 8, 9, 56}) shapes.push_back({rows, groups * 4 - 1});
  }
  shapes.push_back({3, 5, 70});
  shapes.push_back({2, 3, 17, 36});
  add(group_recipes(4), shapes);
  add(block_recipes(3, 4), shapes);
  for (const Recipe& recipe : {per_tensor(), per_token(), per_channel(), per_column()}) {
    std::vector<Recipe> encodings;
    for (ScaleEncoding encoding : kUnpackedEncodings) encodings.push_back(with(recipe, encoding));
    add(encodings, {{1, 1}, {5, 300}, {2, 7, 40}, {0, 8}});
  }
  run_all(cases, compare_relayout);
}

// The GPU cannot look before it writes: what is no power of two becomes NaN's byte, never a rounded
// value. The CPU refuses the call.
TEST_F(Convert, RelayoutOfWhatIsNoPowerOfTwo) {
  const std::vector<float> values = {1.0F, 1.5F, 0.0F, -2.0F, 3e-39F, 4.0F, NAN, INFINITY};
  const std::vector<uint8_t> expected = {127, 255, 255, 255, 255, 129, 255, 255};
  const Recipe in = with(per_token(), ScaleEncoding::ue8m0_f32);
  const Recipe out = with(per_token(), ScaleEncoding::ue8m0);
  const TensorView codes = shape_view(DType::e4m3, {8, 16});
  Lane lane(1 << 20);
  const Slot from = lane.fill("scales_in", shape_view(DType::f32, {8, 1}),
                              reinterpret_cast<const std::byte*>(values.data()), 32);
  const Slot to = lane.reserve("scales_out", shape_view(DType::ue8m0, {8, 1}), 8);
  const Side gpu = lane.gpu_side({}, 0);
  TensorView shape = codes;
  shape.device = gpu.device;
  lane.upload();
  const Status status = relayout_scales(shape, gpu.view(from), in, gpu.view(to), out, gpu.exec);
  ASSERT_TRUE(status.ok()) << status.message();
  lane.download();
  lane.synchronize();
  std::memcpy(lane.want() + to.begin, expected.data(), expected.size());
  const auto difference = lane.difference();
  EXPECT_FALSE(difference) << difference->text;
}

}  // namespace
}  // namespace rowscale::test
