// Linear layers on the CPU: against fp64 from a model of quantize, merged weights against their
// shards, fronts against the chain of separate calls, threads, refusals.
#include "rowscale/linear.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/guarded_buffer.hpp"
#include "tests/support/linear_cases.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

TEST(Linear, EveryKindOfWeightAndInput) {
  for (const LinearCase& c : linear_cases()) {
    const std::unique_ptr<MatmulMemory> memory = host_memory();
    ASSERT_TRUE(linear_is_right(c, memory.get())) << "case " << c.seed;
  }
}

// `count` columns of rows of n floats.
std::vector<std::byte> columns_of(const std::vector<std::byte>& rows, int64_t n, int64_t first,
                                  int64_t count) {
  std::vector<std::byte> out;
  const auto size = static_cast<int64_t>(rows.size());
  for (int64_t at = first * 4; at < size; at += n * 4) {
    out.insert(out.end(), rows.begin() + at, rows.begin() + at + count * 4);
  }
  return out;
}

TEST(Linear, AMergedWeightGivesTheBitsOfItsShards) {
  for (Granularity weights :
       {Granularity::per_tensor, Granularity::per_channel, Granularity::per_block}) {
    LinearCase c;
    c.weights = weights;
    c.shards = {48, 80, 200, 128};
    c.k = 300;
    c.m = 9;
    c.has_bias = true;
    const std::unique_ptr<MatmulMemory> memory = host_memory();
    LinearCall call(c, memory.get());
    ASSERT_TRUE(call.make().ok());
    ASSERT_TRUE(call.run().ok());
    const std::vector<std::byte> merged = call.result();
    int64_t first = 0;
    for (size_t i = 0; i < c.shards.size(); ++i) {
      ASSERT_TRUE(call.make(i, i + 1).ok());
      ASSERT_TRUE(call.run().ok());
      EXPECT_TRUE(same_bytes(call.result(), columns_of(merged, 456, first, c.shards[i])));
      first += c.shards[i];
    }
  }
}

TEST(Linear, PartsBeginWhereBlocksOfShardsDoNotMeet) {
  LinearCase c;
  c.weights = Granularity::per_block;
  c.shards = {128, 256, 80, 128, 200, 8};
  const std::unique_ptr<MatmulMemory> memory = host_memory();
  LinearCall call(c, memory.get());
  ASSERT_TRUE(call.make().ok());
  std::vector<int64_t> first;
  for (const WeightPart& part : call.spec().parts) first.push_back(part.first_row);
  EXPECT_EQ(first, (std::vector<int64_t>{0, 464, 792}));
  EXPECT_EQ(call.spec().n, 800);
  ASSERT_TRUE(call.run().ok());
  EXPECT_TRUE(call.check());
}

// More parts than a call keeps.
// Before there is memory: several parts, whose columns of a null out and rows of a null bias are as
// far from each other as those of real ones.
TEST(Linear, PreparesWithoutMemory) {
  for (const std::vector<int64_t>& shards :
       {std::vector<int64_t>{48, 80, 200}, std::vector<int64_t>{3, 17, 256}}) {
    LinearCase c;
    c.weights = Granularity::per_block;
    c.shards = shards;
    c.k = 250;
    c.m = 5;
    c.has_bias = true;
    const auto memory = host_memory();
    LinearCall call(c, memory.get());
    ASSERT_TRUE(call.make().ok());
    size_t expected = 0;
    ASSERT_TRUE(call.layer().prepare(call.out(), call.bias(), &expected).ok());
    TensorView out = call.out();
    TensorView bias = call.bias();
    out.data = nullptr;
    bias.data = nullptr;
    size_t bytes = 0;
    const Status status = call.layer().prepare(out, bias, &bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(bytes, expected);
  }
}

TEST(Linear, ManyParts) {
  LinearCase c;
  c.weights = Granularity::per_block;
  c.shards = {8, 24, 130, 16, 129, 40};
  c.has_bias = true;
  const std::unique_ptr<MatmulMemory> memory = host_memory();
  ASSERT_TRUE(linear_is_right(c, memory.get()));
}

// A scale of the block (row, group) at its place in `spec`.
void put_scale(const ScaleSpec& spec, ScaleEncoding encoding, int64_t row, int64_t group,
               int exponent, std::vector<std::byte>* scales) {
  const int64_t at = row * spec.strides[0] + group * spec.strides[1];
  if (encoding == ScaleEncoding::ue8m0) {
    (*scales)[static_cast<size_t>(at)] = static_cast<std::byte>(127 + exponent);
    return;
  }
  const float value = std::ldexp(1.0F, exponent);
  std::memcpy(&(*scales)[static_cast<size_t>(at * 4)], &value, 4);
}

TEST(Linear, ScalesInAnyEncodingAndLayout) {
  const int64_t n = 200;
  const int64_t k = 390;
  const std::vector<uint8_t> codes(static_cast<size_t>(n * k), 0x38);  // 1.0
  int packed_ones = 0;
  for (ScaleEncoding encoding :
       {ScaleEncoding::f32, ScaleEncoding::ue8m0_f32, ScaleEncoding::ue8m0}) {
    for (ScaleLayout layout :
         {ScaleLayout::row_major, ScaleLayout::column_major, ScaleLayout::block_k4}) {
      WeightShard shard;
      shard.recipe = per_block(128, 128);
      shard.recipe.encoding = encoding;
      shard.recipe.layout = layout;
      if (!check(shard.recipe).ok()) continue;
      shard.codes = TensorView::contiguous(codes.data(), DType::e4m3, {n, k});
      ScaleSpec spec;
      ASSERT_TRUE(scale_spec(shard.codes, shard.recipe, &spec).ok());
      std::vector<std::byte> scales(static_cast<size_t>(spec.allocation * 4));
      for (int i = 0; i < 8; ++i) put_scale(spec, encoding, i / 4, i % 4, i, &scales);
      shard.scales = spec.view(scales.data());
      PackedWeight weight;
      ASSERT_TRUE(packed_weight_spec({&shard, 1}, &weight.spec).ok());
      std::vector<float> packed(weight.spec.scales_bytes / 4, NAN);
      std::vector<std::byte> packed_codes(weight.spec.codes_bytes);
      weight.codes = packed_codes.data();
      weight.scales = packed.data();
      const Status status = pack_weight({&shard, 1}, weight);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(packed[static_cast<size_t>(i)], std::ldexp(1.0F, i)) << to_string(shard.recipe);
      }
      ++packed_ones;
    }
  }
  EXPECT_GE(packed_ones, 6);
}

// Fronts and the chain of the separate operators, bit for bit.
class LinearFronts : public testing::Test {
 protected:
  static constexpr int64_t kM = 5;
  static constexpr int64_t kK = 264;

  void check_fronts(Granularity weights, ActivationScales activations) {
    LinearCase c;
    c.weights = weights;
    c.activations = activations;
    c.shards = {48, 80};
    c.k = kK;
    c.m = kM;
    c.x = DType::f32;
    const std::unique_ptr<MatmulMemory> memory = host_memory();
    LinearCall call(c, memory.get());
    ASSERT_TRUE(call.make().ok());
    Exec exec;
    ASSERT_TRUE(call.workspace(&exec).ok());
    Random random(7);
    std::vector<float> data(static_cast<size_t>(kM * kK * 2));
    for (float& value : data) value = random.normal();
    std::vector<float> weight(static_cast<size_t>(kK));
    for (float& value : weight) value = random.normal();
    std::vector<float> row(static_cast<size_t>(kM * kK));
    const TensorView one = TensorView::contiguous(data.data(), DType::f32, {kM, kK});
    const TensorView two = TensorView::contiguous(data.data(), DType::f32, {kM, 2 * kK});
    const TensorView y = TensorView::contiguous(row.data(), DType::f32, {kM, kK});
    const TensorView out = call.out();
    RmsNorm norm;
    norm.weight = TensorView::contiguous(weight.data(), DType::f32, {kK});
    const SwigluClamped swiglu;
    const LinearFp8& layer = call.layer();
    const auto expect_same = [&](const char* name, const Status& fused, const Status& separate) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(fused.ok()) << fused.message();
      ASSERT_TRUE(separate.ok()) << separate.message();
      const std::vector<std::byte> got = call.result();
      const Status chained = layer.run(y, {}, out, exec);
      ASSERT_TRUE(chained.ok()) << chained.message();
      EXPECT_TRUE(same_bytes(got, call.result()));
    };
    expect_same("rms_norm", layer.run_rms_norm(one, norm, {}, out, exec), rms_norm(one, norm, y));
    expect_same("silu_mul", layer.run_silu_mul(two, {}, out, exec), silu_mul(two, y));
    expect_same("gelu", layer.run_gelu_tanh_mul(two, {}, out, exec), gelu_tanh_mul(two, y));
    expect_same("relu2", layer.run_relu2(one, {}, out, exec), relu2(one, y));
    expect_same("swiglu", layer.run_swiglu_clamped(two, swiglu, {}, out, exec),
                swiglu_clamped(two, swiglu, y));
  }
};

TEST_F(LinearFronts, GiveTheBitsOfTheChain) {
  check_fronts(Granularity::per_channel, ActivationScales::dynamic);
  check_fronts(Granularity::per_tensor, ActivationScales::given);
  check_fronts(Granularity::per_block, ActivationScales::dynamic);
}

TEST(Linear, SameBitsWithAnyNumberOfThreadsAndFromManyThreads) {
  LinearCase c;
  c.weights = Granularity::per_block;
  c.shards = {200, 80};
  c.m = 33;
  const std::unique_ptr<MatmulMemory> memory = host_memory();
  LinearCall call(c, memory.get());
  ASSERT_TRUE(call.make().ok());
  ASSERT_TRUE(call.run().ok());
  const std::vector<std::byte> first = call.result();
  for (int threads : {0, 2, 3}) {
    Exec exec;
    exec.threads = threads;
    ASSERT_TRUE(call.run(exec).ok());
    EXPECT_TRUE(same_bytes(call.result(), first));
  }
  constexpr size_t kCallers = 4;
  std::vector<std::vector<float>> outs(kCallers, std::vector<float>(first.size() / 4));
  std::vector<Exec> execs(kCallers);
  for (Exec& exec : execs) ASSERT_TRUE(call.workspace(&exec).ok());
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (size_t i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      const TensorView out = TensorView::contiguous(outs[i].data(), DType::f32, {c.m, 280});
      EXPECT_TRUE(call.layer().run(call.x(), {}, out, execs[i]).ok());
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::vector<float>& out : outs) {
    EXPECT_EQ(std::memcmp(out.data(), first.data(), first.size()), 0);
  }
}

std::string refusal(const Status& status) {
  EXPECT_FALSE(status.ok());
  return status.message();
}

TEST(Linear, RefusesCalls) {
  LinearCase c;
  c.shards = {48, 80};
  const std::unique_ptr<MatmulMemory> memory = host_memory();
  LinearCall call(c, memory.get());
  ASSERT_TRUE(call.make().ok());
  Exec exec;
  ASSERT_TRUE(call.workspace(&exec).ok());
  Exec small = exec;
  small.workspace.bytes = 16;
  EXPECT_EQ(refusal(call.layer().run(call.x(), {}, call.out(), small)).find("exec.workspace: "),
            0U);
  TensorView wrong = call.x();
  wrong.shape[1] = 255;
  EXPECT_EQ(refusal(call.layer().run(wrong, {}, call.out(), exec)).find("x: expected [3, 256]"),
            0U);
  wrong = call.out();
  wrong.data = call.x().data;
  EXPECT_EQ(refusal(call.layer().run(call.x(), {}, wrong, exec)).find("out: "), 0U);
  EXPECT_EQ(refusal(LinearFp8().run(call.x(), {}, call.out(), exec)),
            "linear: expected one that make() made, got an empty one");
}

TEST(Linear, RefusesSchemesAndShards) {
  LinearOptions options;
  EXPECT_EQ(linear_options({Granularity::per_channel, ActivationScales::none}, &options).code(),
            StatusCode::unsupported);
  EXPECT_EQ(linear_options({Granularity::per_block, ActivationScales::given}, &options).code(),
            StatusCode::unsupported);
  LinearCase c;
  c.shards = {48, 80};
  const std::unique_ptr<MatmulMemory> memory = host_memory();
  const LinearCall call(c, memory.get());
  std::vector<WeightShard> shards = call.shards();
  PackedWeightSpec spec;
  shards[1].codes.shape[1] = 128;
  EXPECT_EQ(
      refusal(packed_weight_spec(shards, &spec)).find("shards[1].codes: expected 256 columns"), 0U);
  shards = call.shards();
  shards[1].recipe = per_block(128, 128);
  EXPECT_EQ(refusal(packed_weight_spec(shards, &spec)).find("shards[1].recipe: "), 0U);
  shards = call.shards();
  shards[0].scales.shape[0] = 47;
  EXPECT_EQ(refusal(packed_weight_spec(shards, &spec)).find("shards[0].scales: "), 0U);
  EXPECT_EQ(refusal(packed_weight_spec({}, &spec)), "shards: expected at least one, got none");
}

}  // namespace
}  // namespace rowscale::test
