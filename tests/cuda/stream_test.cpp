// How a call runs changes no bit: in a graph that is replayed with other input, first of all calls
// inside a capture, beside another stream, again and again, with dependent launch.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/graph.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

// x -> codes -> y -> codes of another recipe -> codes of a third, in place -> scales in another
// layout: every operator, each reading what the one before it wrote.
class Chain {
 public:
  static constexpr DType kDType = DType::bf16;

  Chain(Lane& lane, const Shape& shape, const Recipe& first, const Recipe& second,
        const std::byte* x)
      : first_(first), second_(second), third_(with(per_group(64), ScaleEncoding::ue8m0)) {
    fourth_ = with(third_, ScaleEncoding::ue8m0_packed);
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    const TensorView rows = shape_view(kDType, shape);
    const TensorView codes = shape_view(DType::e4m3, shape);
    const auto scales = [&](const char* name, const Recipe& recipe) {
      const ScaleSpec spec = spec_of(codes, recipe);
      return lane.reserve(name, spec.view(static_cast<void*>(nullptr)), scale_bytes(spec));
    };
    x_ = lane.fill("x", rows, x, count * 2);
    codes_ = lane.reserve("codes", codes, count);
    scales_ = scales("scales", first_);
    y_ = lane.reserve("y", rows, count * 2);
    codes_again_ = lane.reserve("codes again", codes, count);
    scales_again_ = scales("scales again", second_);
    scales_third_ = scales("scales of the third recipe", third_);
    scales_packed_ = scales("packed scales", fourth_);
  }

  [[nodiscard]] const Slot& x() const { return x_; }
  [[nodiscard]] size_t workspace_bytes() const {
    TensorView rows = x_.view;
    TensorView codes = codes_.view;
    rows.device = codes.device = kGpu;
    return std::max({quantize_workspace_bytes(rows, first_),
                     quantize_workspace_bytes(rows, second_),
                     requantize_workspace_bytes(codes, third_)});
  }

  [[nodiscard]] Status run(const Side& side) const {
    const TensorView x = side.view(x_);
    const TensorView codes = side.view(codes_);
    const TensorView scales = side.view(scales_);
    const TensorView y = side.view(y_);
    const TensorView again = side.view(codes_again_);
    const TensorView scales_again = side.view(scales_again_);
    const TensorView scales_third = side.view(scales_third_);
    if (Status s = quantize(x, first_, codes, scales, side.exec); !s.ok()) return s;
    if (Status s = dequantize(codes, scales, first_, y, side.exec); !s.ok()) return s;
    if (Status s = quantize(y, second_, again, scales_again, side.exec); !s.ok()) return s;
    if (Status s = requantize(again, scales_again, second_, again, scales_third, third_, side.exec);
        !s.ok()) {
      return s;
    }
    return relayout_scales(again, scales_third, third_, side.view(scales_packed_), fourth_,
                           side.exec);
  }

 private:
  Recipe first_, second_, third_, fourth_;
  Slot x_, codes_, scales_, y_, codes_again_, scales_again_, scales_third_, scales_packed_;
};

struct Pair {
  Recipe first, second;
};
const std::vector<Pair>& recipe_pairs() {
  static const std::vector<Pair> pairs = {
      {per_group(128), per_token()},
      {per_tensor(), with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma)},
      {per_token(), per_tensor()},
      {per_block(128, 128), with(per_group(128), ScaleEncoding::ue8m0_packed)},
      {with(per_group(32), ScaleEncoding::ue8m0_packed), per_block(64, 32)},
  };
  return pairs;
}
const Shape kChainShapes[] = {{1, 128}, {3, 200}, {64, 1024}, {257, 4096}};

const std::byte* data_of_round(int round) {
  const Shared& pool =
      data_pool(round % 2 == 0 ? PoolKind::finite : PoolKind::mixed, Chain::kDType);
  return pool.host + int64_t{round} * 1024;
}

class Streams : public GpuTest {};

// First in its process where ctest and scripts/gpu-check run it: alone.
class FirstCall : public GpuTest {};

TEST_F(FirstCall, InsideACapture) {
  Lane lane(kLaneBytes);
  const Chain chain(lane, {257, 4096}, per_tensor(), per_group(128), data_of_round(0));
  // As much as any call here may ask for: asking the library would be a call before the capture.
  const Side gpu = lane.gpu_side({}, 1 << 20);
  const Graph graph(lane.stream(), [&] { return chain.run(gpu); });
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  lane.upload();
  graph.launch(lane.stream());
  lane.download();
  lane.synchronize();
  ASSERT_TRUE(chain.run(lane.cpu_side({})).ok());
  const auto difference = lane.difference();
  EXPECT_FALSE(difference) << difference->text;
}

TEST_F(Streams, AGraphReplayedWithOtherInput) {
  Lane lane(kLaneBytes);
  for (DependentLaunch dependent : {DependentLaunch::off, DependentLaunch::on}) {
    for (const Shape& shape : kChainShapes) {
      for (const Pair& pair : recipe_pairs()) {
        lane.reset();
        const Chain chain(lane, shape, pair.first, pair.second, data_of_round(0));
        Exec exec;
        exec.dependent_launch = dependent;
        const Side gpu = lane.gpu_side(exec, chain.workspace_bytes());
        const Graph graph(lane.stream(), [&] { return chain.run(gpu); });
        ASSERT_TRUE(graph.status().ok()) << graph.status().message();
        for (int round = 0; round < 4; ++round) {
          lane.change(chain.x(), data_of_round(round));
          lane.poison_again();
          lane.upload();
          graph.launch(lane.stream());
          lane.download();
          lane.synchronize();
          ASSERT_TRUE(chain.run(lane.cpu_side(exec)).ok());
          const auto difference = lane.difference();
          ASSERT_FALSE(difference) << "round " << round << ", dependent launch "
                                   << static_cast<int>(dependent) << ", " << to_string(pair.first)
                                   << ", " << to_string(pair.second) << ": " << difference->text;
        }
      }
    }
  }
}

TEST_F(Streams, ChainsWithDependentLaunch) {
  struct Case {
    Shape shape;
    Pair pair;
    DependentLaunch dependent;
    int round;
  };
  std::vector<Case> cases;
  for (int round = 0; round < 20; ++round) {
    for (const Shape& shape : kChainShapes) {
      for (const Pair& pair : recipe_pairs()) {
        cases.push_back({shape, pair, DependentLaunch::on, round});
        if (round % 5 == 0) cases.push_back({shape, pair, DependentLaunch::off, round});
      }
    }
  }
  run_all(cases, [](Lane& lane, const Case& c) {
    const Chain chain(lane, c.shape, c.pair.first, c.pair.second, data_of_round(c.round));
    Exec exec;
    exec.dependent_launch = c.dependent;
    const auto difference = lane.compare(exec, chain.workspace_bytes(),
                                         [&](const Side& side) { return chain.run(side); });
    return difference
               ? to_string(c.pair.first) + ", " + to_string(c.pair.second) + ": " + difference->text
               : std::string();
  });
}

// Two streams, each with its own workspace, filled in turns before either is waited for.
TEST_F(Streams, TwoAtOnce) {
  Lane lanes[2] = {Lane(kLaneBytes), Lane(kLaneBytes)};
  for (int round = 0; round < 10; ++round) {
    for (const Pair& pair : recipe_pairs()) {
      std::vector<Chain> chains[2];
      std::vector<Side> sides;
      for (int i = 0; i < 2; ++i) {
        lanes[i].reset();
        for (int n = 0; n < 4; ++n) {
          chains[i].emplace_back(lanes[i], Shape{33 + 16 * i, 512}, pair.first, pair.second,
                                 data_of_round(round + 2 * n + i));
        }
        sides.push_back(lanes[i].gpu_side({}, chains[i].front().workspace_bytes()));
        lanes[i].upload();
      }
      for (size_t n = 0; n < 4; ++n) {
        for (size_t i = 0; i < 2; ++i) {
          const Status status = chains[i][n].run(sides[i]);
          ASSERT_TRUE(status.ok()) << status.message();
        }
      }
      for (Lane& lane : lanes) lane.download();
      for (int i = 0; i < 2; ++i) {
        lanes[i].synchronize();
        for (const Chain& chain : chains[i]) ASSERT_TRUE(chain.run(lanes[i].cpu_side({})).ok());
        const auto difference = lanes[i].difference();
        ASSERT_FALSE(difference) << "stream " << i << ", " << to_string(pair.first) << ": "
                                 << difference->text;
      }
    }
  }
}

TEST_F(Streams, FiftyRepeats) {
  std::vector<QuantizeCase> cases;
  for (const Recipe& recipe : all_recipes(128, 128, 128)) {
    for (const Shape& shape : {Shape{1, 7168}, Shape{17, 1368}, Shape{129, 4096}}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        QuantizeCase c{recipe, &data_pool(PoolKind::finite, DType::bf16),
                       shape_view(DType::bf16, shape)};
        c.seed = 1;
        c.dependent_launch = repeat % 2 == 0 ? DependentLaunch::off : DependentLaunch::on;
        cases.push_back(c);
      }
    }
  }
  run_all(cases, compare_quantize);
}

TEST_F(Streams, AnotherCurrentDevice) {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count < 2) GTEST_SKIP() << "one GPU: no other device can be current";
  Lane lane(kLaneBytes);
  const Chain chain(lane, {33, 512}, per_tensor(), per_group(128), data_of_round(0));
  check_cuda(cudaSetDevice(1), "cudaSetDevice");
  const auto difference =
      lane.compare({}, chain.workspace_bytes(), [&](const Side& side) { return chain.run(side); });
  int current = -1;
  check_cuda(cudaGetDevice(&current), "cudaGetDevice");
  check_cuda(cudaSetDevice(0), "cudaSetDevice");
  EXPECT_FALSE(difference) << difference->text;
  EXPECT_EQ(current, 1);
}

}  // namespace
}  // namespace rowscale::test
