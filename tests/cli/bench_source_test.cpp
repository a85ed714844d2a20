// What `bench fused` times: sources by name, the bytes that they move, and the call behind each.
#include "bench_source.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "failure.hpp"
#include "tests/support/calls.hpp"

namespace rowscale::cli {
namespace {

TEST(BenchSource, IsFoundByItsName) {
  EXPECT_EQ(parse_source("rms_norm+residual").residual, Residual::in_place);
  EXPECT_EQ(parse_source("rms_norm+residual").row_out, RowOut::absent);
  EXPECT_EQ(parse_source("rms_norm+row").row_out, RowOut::stored);
  EXPECT_EQ(parse_source("silu_mul").inputs(), 2);
  EXPECT_EQ(parse_source("relu2").inputs(), 1);
  try {
    parse_source("softmax");
    FAIL() << "a source that there is not";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), ExitCode::usage);
    const std::string text = failure.what();
    EXPECT_NE(text.find("--source"), std::string::npos) << text;
    EXPECT_NE(text.find("rms_norm+residual+row, silu_mul"), std::string::npos) << text;
    EXPECT_NE(text.find("got softmax"), std::string::npos) << text;
  }
}

// Counted by hand: x, the residual in and out, the row, the code.
TEST(BenchSource, BytesOfAnElement) {
  struct Case {
    const char* name;
    int64_t bf16, f32;
  };
  for (const Case& c :
       {Case{"rms_norm", 3, 5}, Case{"rms_norm+residual", 7, 13}, Case{"rms_norm+row", 5, 9},
        Case{"rms_norm+residual+row", 9, 17}, Case{"silu_mul", 5, 9}, Case{"gelu_tanh_mul", 5, 9},
        Case{"relu2", 3, 5}, Case{"swiglu_clamped", 5, 9}}) {
    EXPECT_EQ(parse_source(c.name).element_traffic(DType::bf16), c.bf16) << c.name;
    EXPECT_EQ(parse_source(c.name).element_traffic(DType::f32), c.f32) << c.name;
  }
}

TEST(BenchSource, FeedsTheLayersBehindIt) {
  EXPECT_TRUE(parse_source("rms_norm").feeds("qkv, gate_up"));
  EXPECT_FALSE(parse_source("rms_norm").feeds("down"));
  EXPECT_FALSE(parse_source("rms_norm").feeds("o"));
  EXPECT_TRUE(parse_source("silu_mul").feeds("expert down"));
  EXPECT_FALSE(parse_source("silu_mul").feeds("qkv, gate_up"));
}

TEST(BenchSource, RecipesOfFusedOperators) {
  EXPECT_TRUE(is_fused_recipe(per_token()));
  EXPECT_TRUE(is_fused_recipe(per_group(128)));
  EXPECT_FALSE(is_fused_recipe(per_tensor()));
  EXPECT_FALSE(is_fused_recipe(per_block(128, 128)));
  Recipe given = per_tensor();
  given.scale_source = ScaleSource::given;
  EXPECT_TRUE(is_fused_recipe(given));
}

// The value that a source makes of 2 beside 3, as a code and its scale: floats that every step
// holds exactly, but for those of exp and tanh, which are told by their sign and size.
TEST(BenchSource, CallsItsOperator) {
  const auto made_by = [](const char* name, const std::vector<float>& x) {
    const BenchSource& source = parse_source(name);
    const std::vector<float> weight = {1.0F};
    std::vector<float> residual = {2.0F};
    std::vector<float> row(1);
    std::vector<std::byte> code(1);
    std::vector<float> scale(1);
    SourceTensors tensors;
    tensors.x = test::view_of(x.data(), DType::f32, {1, source.inputs()});
    if (source.op == FusedOperator::rms_norm) {
      tensors.weight = test::view_of(weight.data(), DType::f32, {1});
    }
    if (source.residual == Residual::in_place) {
      tensors.residual = test::view_of(residual.data(), DType::f32, {1, 1});
    }
    tensors.row_out = test::view_of(row.data(), DType::f32, {1, 1});
    const Status status =
        run_fused(source, tensors, per_token(), test::view_of(code.data(), DType::e4m3, {1, 1}),
                  test::view_of(scale.data(), DType::f32, {1, 1}), {});
    EXPECT_TRUE(status.ok()) << name << ": " << status.message();
    EXPECT_EQ(scale[0], row[0] / 448.0F) << name;
    EXPECT_EQ(residual[0], source.residual == Residual::in_place ? 2.0F + x[0] : 2.0F) << name;
    return row[0];
  };
  EXPECT_EQ(made_by("relu2", {3.0F}), 9.0F);
  EXPECT_NEAR(made_by("rms_norm", {3.0F}), 1.0F, 1e-6F);
  EXPECT_NEAR(made_by("rms_norm+residual", {3.0F}), 1.0F, 1e-6F);
  EXPECT_NEAR(made_by("silu_mul", {2.0F, 3.0F}), 5.2847825F, 1e-5F);       // 3 * 2 / (1 + e^-2)
  EXPECT_NEAR(made_by("gelu_tanh_mul", {2.0F, 3.0F}), 5.8637931F, 1e-4F);  // 3 * 1.9545977
  EXPECT_NEAR(made_by("swiglu_clamped", {2.0F, 3.0F}), 7.7426345F,
              1e-4F);  // 4 * 2 / (1 + e^-3.404)
}

}  // namespace
}  // namespace rowscale::cli
