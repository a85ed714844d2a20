// How a call of a norm or an activation runs changes no bit: in a graph that is replayed with other
// input, first of all calls inside a capture, beside another stream, again and again, with
// dependent launch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/graph.hpp"
#include "tests/cuda/support/shapes.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr DType kDType = DType::bf16;

const std::byte* data_of_round(int round) {
  const Shared& pool = data_pool(round % 3 == 2 ? PoolKind::mixed : PoolKind::finite, kDType);
  return pool.host + int64_t{round} * 1024;
}

// A layer's operators in a row, each reading what one before it wrote: a norm that adds to the
// residual, stores its row and quantizes it; the activations of that row, alone and quantized; and
// a norm of what an activation stored.
class Layer {
 public:
  Layer(Lane& lane, const Matrix& shape, const Recipe& first, const Recipe& second, int round)
      : first_(first), second_(second) {
    data_pool(PoolKind::finite, kWeight);  // no capture may allocate it
    const int64_t wide = shape.hidden;
    const int64_t half = shape.hidden / 2;
    const auto rows = [&](int64_t columns) { return shape_view(kDType, {shape.tokens, columns}); };
    x_ = fill_rows(lane, "x", rows(wide), data_of_round(round), 0);
    residual_ = fill_rows(lane, "residual", rows(wide), data_of_round(round + 1), 0);
    norm_ = quantized(lane, "norm", shape.tokens, wide, first);
    norm_row_ = reserve_rows(lane, "norm's row", rows(wide), 0);
    silu_ = quantized(lane, "silu_mul", shape.tokens, half, second);
    gelu_row_ = reserve_rows(lane, "gelu_tanh_mul's row", rows(half), 0);
    swiglu_ = quantized(lane, "swiglu_clamped", shape.tokens, half, first);
    relu2_ = quantized(lane, "relu2", shape.tokens, half, second);
    last_row_ = reserve_rows(lane, "the last norm's row", rows(half), 0);
  }

  // Noise in all but x and the residual, which become those of a round.
  void renew(Lane& lane, int round) const {
    lane.change(x_, data_of_round(round));
    lane.change(residual_, data_of_round(round + 1));
    lane.poison_again();
  }

  [[nodiscard]] Status run(const Side& side) const {
    const Producer norm{plan::SourceKind::rms_norm, kWeight};
    const Producer silu{plan::SourceKind::silu_mul};
    const Producer gelu{plan::SourceKind::gelu_tanh_mul};
    const Producer swiglu{plan::SourceKind::swiglu_clamped};
    const Producer relu2{plan::SourceKind::relu2};
    const TensorView row = side.view(norm_row_);
    const TensorView half_row = side.view(gelu_row_);
    const ProducerTensors first{weight_on(side, row.columns()), side.view(residual_)};
    const ProducerTensors last{weight_on(side, half_row.columns()), {}};
    const auto quantize_to = [&](const Producer& producer, const TensorView& x,
                                 const ProducerTensors& tensors, const Recipe& recipe,
                                 const Quantized& to, const TensorView& row_out) {
      return produce_and_quantize(producer, x, tensors, recipe, side.view(to.codes),
                                  side.view(to.scales), row_out, side.exec);
    };
    Status status = quantize_to(norm, side.view(x_), first, first_, norm_, row);
    if (status.ok()) status = quantize_to(silu, row, {}, second_, silu_, {});
    if (status.ok()) status = produce(gelu, row, {}, half_row, side.exec);
    if (status.ok()) status = quantize_to(swiglu, row, {}, first_, swiglu_, {});
    if (status.ok()) status = quantize_to(relu2, half_row, {}, second_, relu2_, {});
    if (!status.ok()) return status;
    return produce(norm, half_row, last, side.view(last_row_), side.exec);
  }

 private:
  static constexpr DType kWeight = DType::f32;

  struct Quantized {
    Slot codes, scales;
  };
  static Quantized quantized(Lane& lane, const char* name, int64_t tokens, int64_t hidden,
                             const Recipe& recipe) {
    const TensorView codes = shape_view(code_dtype(recipe), {tokens, hidden});
    const std::string text = name;
    return {reserve_rows(lane, (text + "'s codes").c_str(), codes, 0),
            reserve_scales(lane, (text + "'s scales").c_str(), codes, recipe, 0)};
  }
  static TensorView weight_on(const Side& side, int64_t hidden) {
    return window_on(side, shape_view(kWeight, {hidden}), data_pool(PoolKind::finite, kWeight), 0);
  }

  Recipe first_, second_;
  Slot x_, residual_, norm_row_, gelu_row_, last_row_;
  Quantized norm_, silu_, swiglu_, relu2_;
};

struct Pair {
  Recipe first, second;
};
const std::vector<Pair>& recipe_pairs() {
  static const std::vector<Pair> pairs = {
      {per_group(128), per_token()},
      {per_token(), with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major_tma)},
      {with(per_group(128), ScaleEncoding::ue8m0_packed), with(per_token(), Format::e5m2)},
      {per_group(16), with(per_group(32), ScaleEncoding::ue8m0_packed)},
  };
  return pairs;
}
constexpr Matrix kLayerShapes[] = {{1, 128}, {3, 200}, {64, 1024}, {129, 4096}, {1, 16384}};

// As a failure names it.
std::string text_of(const Pair& pair, const Matrix& shape, const std::string& difference) {
  return to_string(pair.first) + ", " + to_string(pair.second) + " on " +
         std::to_string(shape.tokens) + " x " + std::to_string(shape.hidden) + ": " + difference;
}

// First in its process where ctest and scripts/gpu-check run it: alone.
class FusedFirstCall : public GpuTest {};

TEST_F(FusedFirstCall, InsideACapture) {
  Lane lane(kLaneBytes);
  const Layer layer(lane, {129, 4096}, per_token(), per_group(128), 0);
  const Side gpu = lane.gpu_side({}, 0);
  const Graph graph(lane.stream(), [&] { return layer.run(gpu); });
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  lane.upload();
  graph.launch(lane.stream());
  lane.download();
  lane.synchronize();
  ASSERT_TRUE(layer.run(lane.cpu_side({})).ok());
  const auto difference = lane.difference();
  EXPECT_FALSE(difference) << difference->text;
}

class FusedStreams : public GpuTest {};

TEST_F(FusedStreams, AGraphReplayedWithOtherInput) {
  Lane lane(kLaneBytes);
  for (DependentLaunch dependent : {DependentLaunch::off, DependentLaunch::on}) {
    for (const Matrix& shape : kLayerShapes) {
      for (const Pair& pair : recipe_pairs()) {
        lane.reset();
        const Layer layer(lane, shape, pair.first, pair.second, 0);
        Exec exec;
        exec.dependent_launch = dependent;
        const Side gpu = lane.gpu_side(exec, 0);
        const Graph graph(lane.stream(), [&] { return layer.run(gpu); });
        ASSERT_TRUE(graph.status().ok()) << graph.status().message();
        for (int round = 0; round < 4; ++round) {
          layer.renew(lane, round);
          lane.upload();
          graph.launch(lane.stream());
          lane.download();
          lane.synchronize();
          ASSERT_TRUE(layer.run(lane.cpu_side(exec)).ok());
          const auto difference = lane.difference();
          ASSERT_FALSE(difference)
              << "round " << round << ", dependent launch " << static_cast<int>(dependent) << ", "
              << text_of(pair, shape, difference->text);
        }
      }
    }
  }
}

TEST_F(FusedStreams, LayersWithDependentLaunch) {
  struct Case {
    Matrix shape;
    Pair pair;
    DependentLaunch dependent;
    int round;
  };
  std::vector<Case> cases;
  for (int round = 0; round < 20; ++round) {
    for (const Matrix& shape : kLayerShapes) {
      for (const Pair& pair : recipe_pairs()) {
        cases.push_back({shape, pair, DependentLaunch::on, round});
        if (round % 5 == 0) cases.push_back({shape, pair, DependentLaunch::off, round});
      }
    }
  }
  run_all(cases, [](Lane& lane, const Case& c) {
    const Layer layer(lane, c.shape, c.pair.first, c.pair.second, c.round);
    Exec exec;
    exec.dependent_launch = c.dependent;
    const auto difference =
        lane.compare(exec, 0, [&](const Side& side) { return layer.run(side); });
    return difference ? text_of(c.pair, c.shape, difference->text) : std::string();
  });
}

// Two streams, filled in turns before either is waited for.
TEST_F(FusedStreams, TwoAtOnce) {
  Lane lanes[2] = {Lane(kLaneBytes), Lane(kLaneBytes)};
  for (int round = 0; round < 10; ++round) {
    for (const Pair& pair : recipe_pairs()) {
      std::vector<Layer> layers[2];
      std::vector<Side> sides;
      for (int i = 0; i < 2; ++i) {
        lanes[i].reset();
        for (int n = 0; n < 4; ++n) {
          layers[i].emplace_back(lanes[i], Matrix{33 + 16 * i, 512}, pair.first, pair.second,
                                 round + 2 * n + i);
        }
        sides.push_back(lanes[i].gpu_side({}, 0));
        lanes[i].upload();
      }
      for (size_t n = 0; n < 4; ++n) {
        for (size_t i = 0; i < 2; ++i) {
          const Status status = layers[i][n].run(sides[i]);
          ASSERT_TRUE(status.ok()) << status.message();
        }
      }
      for (Lane& lane : lanes) lane.download();
      for (int i = 0; i < 2; ++i) {
        lanes[i].synchronize();
        for (const Layer& layer : layers[i]) ASSERT_TRUE(layer.run(lanes[i].cpu_side({})).ok());
        const auto difference = lanes[i].difference();
        ASSERT_FALSE(difference) << "stream " << i << ", " << to_string(pair.first) << ": "
                                 << difference->text;
      }
    }
  }
}

TEST_F(FusedStreams, FiftyRepeats) {
  std::vector<FusedCase> cases;
  for (const Producer& producer : kProducers) {
    for (const Recipe& recipe :
         {per_token(), per_group(128), with(per_group(128), ScaleEncoding::ue8m0_packed),
          with(per_tensor(), ScaleSource::given)}) {
      for (const Shape& shape : {Shape{1, 7168}, Shape{17, 1368}, Shape{65, 4096}}) {
        for (int repeat = 0; repeat < 50; ++repeat) {
          FusedCase c = fused_case(producer, recipe, PoolKind::finite, kDType, shape, 1);
          c.row_out = RowOut::stored;
          c.dependent_launch = repeat % 2 == 0 ? DependentLaunch::off : DependentLaunch::on;
          cases.push_back(c);
        }
      }
    }
  }
  run_all(cases, compare_fused);
}

}  // namespace
}  // namespace rowscale::test
