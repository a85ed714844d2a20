// The casts of checkpoints on the GPU against the CPU's, which tests/cpu/checkpoint_cast_test.cpp
// holds to the bytes of llm-compressor.
#include "api/checkpoint_cast.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kFloats[] = {DType::bf16, DType::f16, DType::f32};
std::vector<Shape> shapes() {
  return {Shape{1, 1}, {1, 128},   {3, 46},    {128, 128}, {129, 257},
          {200, 1000}, {64, 4096}, {1, 70001}, {4099, 3},  {0, 64}};
}

struct CastCase {
  DType dtype;
  PoolKind kind;
  Shape shape;
  Recipe recipe;
  uint64_t seed;
};

std::string to_string(const CastCase& c) {
  return fmt::format("{} {} [{}, {}] {}", rowscale::to_string(c.recipe),
                     rowscale::to_string(c.dtype), c.shape[0], c.shape[1], to_string(c.kind));
}

std::vector<CastCase> cast_cases() {
  std::vector<CastCase> out;
  for (const Shape& shape : shapes()) {
    for (const Recipe& recipe : {per_channel(), per_block(128, 128), per_block(3, 100),
                                 per_block(16, 512), with(per_tensor(), ScaleSource::given)}) {
      for (DType dtype : kFloats) {
        for (PoolKind kind : kAllPoolKinds) {
          for (int i = 0; i < 4; ++i) out.push_back({dtype, kind, shape, recipe, out.size()});
        }
      }
    }
  }
  return out;
}

class CheckpointCasts : public GpuTest {};

TEST_F(CheckpointCasts, Quantize) {
  run_all(cast_cases(), [](Lane& lane, const CastCase& c) {
    const int64_t elements = c.shape[0] * c.shape[1];
    const int64_t element = element_size(c.dtype);
    const bool is_given = c.recipe.scale_source == ScaleSource::given;
    const bool is_block = c.recipe.granularity == Granularity::per_block;
    const auto units = [](int64_t size, int64_t unit) { return (size + unit - 1) / unit; };
    const Shape scale_shape = is_given   ? Shape{1}
                              : is_block ? Shape{units(c.shape[0], c.recipe.block_rows),
                                                 units(c.shape[1], c.recipe.block_columns)}
                                         : Shape{c.shape[0], 1};
    int64_t scale_bytes = element;
    for (const int64_t size : scale_shape) scale_bytes *= size;

    const Shared& pool = data_pool(c.kind, c.dtype);
    const int64_t begin = window(c.seed, pool.size - elements * element, element);
    const Slot codes = lane.reserve("codes", shape_view(DType::e4m3, c.shape), elements);
    std::vector<std::byte> given(static_cast<size_t>(element));
    api::checkpoint_scale(c.dtype, 0.37F * static_cast<float>(c.seed % 9), given.data());
    const Slot scales =
        is_given ? lane.fill("scales", shape_view(c.dtype, scale_shape), given.data(), element)
                 : lane.reserve("scales", shape_view(c.dtype, scale_shape), scale_bytes);
    const auto difference = lane.compare({}, 0, [&](const Side& side) {
      return api::checkpoint_quantize(side.view(shape_view(c.dtype, c.shape), pool, begin),
                                      c.recipe, side.view(codes), side.view(scales), side.exec);
    });
    return difference ? to_string(c) + ": " + difference->text : std::string();
  });
}

TEST_F(CheckpointCasts, Absmax) {
  run_all(cast_cases(), [](Lane& lane, const CastCase& c) {
    const int64_t elements = c.shape[0] * c.shape[1];
    const Shared& pool = data_pool(c.kind, c.dtype);
    const int64_t element = element_size(c.dtype);
    const int64_t begin = window(c.seed, pool.size - elements * element, element);
    const Slot amax = lane.reserve("amax", shape_view(DType::f32, {1}), sizeof(float));
    const auto difference = lane.compare({}, 0, [&](const Side& side) {
      return api::checkpoint_absmax(side.view(shape_view(c.dtype, c.shape), pool, begin),
                                    side.view(amax), side.exec);
    });
    return difference ? to_string(c) + ": " + difference->text : std::string();
  });
}

}  // namespace
}  // namespace rowscale::test
