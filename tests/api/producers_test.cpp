// Fused operators give, bit for bit, what the chain of the separate ones gives; the separate ones
// give the model of tests/support/exact_model.hpp, which shares no code with them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/code_table.hpp"
#include "tests/support/exact_model.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

struct Producer {
  std::string name;
  int64_t inputs;
  std::function<Status(const TensorView& x, const TensorView& y)> separate;
  std::function<Status(const TensorView& x, const Recipe&, const TensorView& codes,
                       const TensorView& scales, const TensorView& row)>
      fused;
};

std::vector<Producer> activations() {
  return {
      {"silu_mul", 2, [](const auto& x, const auto& y) { return silu_mul(x, y); },
       [](const auto& x, const auto& r, const auto& c, const auto& s, const auto& row) {
         return silu_mul_quantize(x, r, c, s, row);
       }},
      {"gelu_tanh_mul", 2, [](const auto& x, const auto& y) { return gelu_tanh_mul(x, y); },
       [](const auto& x, const auto& r, const auto& c, const auto& s, const auto& row) {
         return gelu_tanh_mul_quantize(x, r, c, s, row);
       }},
      {"relu2", 1, [](const auto& x, const auto& y) { return relu2(x, y); },
       [](const auto& x, const auto& r, const auto& c, const auto& s, const auto& row) {
         return relu2_quantize(x, r, c, s, row);
       }},
      {"swiglu_clamped", 2,
       [](const auto& x, const auto& y) {
         return swiglu_clamped(x, {1.3F, 5.0F}, y);
       },
       [](const auto& x, const auto& r, const auto& c, const auto& s, const auto& row) {
         return swiglu_clamped_quantize(x, {1.3F, 5.0F}, r, c, s, row);
       }},
  };
}

// Those that fused operators take.
std::vector<Recipe> fused_recipes() {
  std::vector<Recipe> list = group_recipes(24);
  for (const Recipe& recipe :
       {per_token(), per_channel(), per_group(9000), with(per_token(), Format::e5m2), per_column(),
        with(per_tensor(), ScaleSource::given), with(per_block(2, 64), ScaleSource::given),
        with(per_group(24), ScaleSource::given)}) {
    list.push_back(recipe);
  }
  Recipe chosen = per_token();
  chosen.quotient = Quotient::reciprocal;
  chosen.nan = NanRule::clamp_low;
  chosen.bound = {BoundKind::amax, 0.25F};
  list.push_back(chosen);
  return list;
}

CallOptions options_for(const Recipe& recipe, const std::vector<int64_t>& shape) {
  CallOptions options;
  options.given = make_scales(spec_of(view_of(nullptr, code_dtype(recipe), shape), recipe),
                              recipe.encoding, 17);
  return options;
}

class Fused : public testing::TestWithParam<DType> {};

TEST_P(Fused, ActivationsEqualTheChain) {
  const DType dtype = GetParam();
  for (const Producer& producer : activations()) {
    for (const auto& shape : {std::vector<int64_t>{4, 130}, {2, 3, 100}, {1, 12000}}) {
      const int64_t hidden = shape.back();
      std::vector<int64_t> x_shape = shape;
      x_shape.back() *= producer.inputs;
      int64_t count = 1;
      for (int64_t size : x_shape) count *= size;
      const auto bytes = make_data(hidden == 100 ? Data::raw : Data::normal, dtype, count, 3);
      const TensorView x = view_of(bytes.data(), dtype, x_shape);
      const auto row = call_into_rows(x, hidden, dtype,
                                      [&](const TensorView& y) { return producer.separate(x, y); });
      for (const Recipe& recipe : fused_recipes()) {
        const CallOptions options = options_for(recipe, shape);
        const Outputs chain = run_quantize(view_of(row.data(), dtype, shape), recipe, options);
        for (bool with_row : {false, true}) {
          GuardedBuffer stored(static_cast<int64_t>(row.size()), 1);
          const Outputs fused = call_quantizer(
              x, hidden, recipe, options, [&](const TensorView& c, const TensorView& s) {
                return producer.fused(
                    x, recipe, c, s,
                    with_row ? view_of(stored.data(), dtype, shape) : TensorView{});
              });
          EXPECT_TRUE(same_outputs(fused, chain)) << producer.name << ": " << to_string(recipe);
          EXPECT_TRUE(stored.guards_are_unchanged());
          if (with_row) {
            EXPECT_TRUE(same_bytes(stored.content(), row)) << producer.name;
          }
        }
      }
    }
  }
}

TEST_P(Fused, NormsEqualTheChain) {
  const DType dtype = GetParam();
  for (const auto& shape : {std::vector<int64_t>{4, 130}, {2, 3, 100}, {1, 9001}}) {
    const int64_t hidden = shape.back();
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    const auto bytes = make_data(Data::normal, dtype, count, 5);
    const auto first = make_data(Data::normal, dtype, count, 6);
    const TensorView x = view_of(bytes.data(), dtype, shape);
    for (DType weight_dtype : {DType::f32, DType::f16, DType::bf16}) {
      const auto weight = make_data(Data::normal, weight_dtype, hidden, 7);
      for (NormForm form : {NormForm::standard, NormForm::gemma}) {
        for (bool has_residual : {false, true}) {
          RmsNorm norm;
          norm.weight = view_of(weight.data(), weight_dtype, {hidden});
          norm.form = form;
          norm.eps = 1e-5F;
          std::vector<std::byte> residual = first;
          if (has_residual) norm.residual = view_of(residual.data(), dtype, shape);
          const auto row = call_into_rows(
              x, hidden, dtype, [&](const TensorView& y) { return rms_norm(x, norm, y); });
          const std::vector<std::byte> sum = residual;
          for (const Recipe& recipe : fused_recipes()) {
            const CallOptions options = options_for(recipe, shape);
            const Outputs chain = run_quantize(view_of(row.data(), dtype, shape), recipe, options);
            GuardedBuffer stored(static_cast<int64_t>(row.size()), 1);
            residual = first;
            const Outputs fused = call_quantizer(
                x, hidden, recipe, options, [&](const TensorView& c, const TensorView& s) {
                  return rms_norm_quantize(x, norm, recipe, c, s,
                                           view_of(stored.data(), dtype, shape));
                });
            EXPECT_TRUE(same_outputs(fused, chain)) << to_string(recipe);
            EXPECT_TRUE(same_bytes(stored.content(), row));
            if (has_residual) {
              EXPECT_TRUE(same_bytes(residual, sum));
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Fused, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& test) { return to_string(test.param); });

// f32 has no rounding between the steps, so the model's result is the operator's.
TEST(Separate, ActivationsOfFloatsEqualTheModel) {
  const int64_t n = 3000;
  for (Data data : {Data::normal, Data::wide}) {
    auto values = values_of(DType::f32, make_data(data, DType::f32, 2 * n, 8));
    for (size_t i = 0; i < values.size(); i += 3) values[i] *= data == Data::normal ? 20.0F : 1.0F;
    const TensorView x = view_of(values.data(), DType::f32, {1, 2 * n});
    std::vector<float> y(static_cast<size_t>(n));
    const TensorView out = view_of(y.data(), DType::f32, {1, n});
    ASSERT_TRUE(silu_mul(x, out).ok());
    for (size_t i = 0; i < y.size(); ++i) {
      const float want = mul_exactly(swish_model(values[i], 1.0F), values[i + y.size()]);
      ASSERT_TRUE(both_nan_or_same_bits(y[i], want)) << "silu " << values[i];
    }
    ASSERT_TRUE(gelu_tanh_mul(x, out).ok());
    for (size_t i = 0; i < y.size(); ++i) {
      const float want = mul_exactly(gelu_tanh_model(values[i]), values[i + y.size()]);
      ASSERT_TRUE(both_nan_or_same_bits(y[i], want)) << "gelu " << values[i];
    }
    ASSERT_TRUE(swiglu_clamped(x, {}, out).ok());
    for (size_t i = 0; i < y.size(); ++i) {
      const float want = swiglu_clamped_model(values[2 * i], values[2 * i + 1], 1.702F, 7.0F);
      ASSERT_TRUE(both_nan_or_same_bits(y[i], want)) << "swiglu " << values[2 * i];
    }
  }
}

// The norm of bf16 rows: z * t rounded to bf16, times w, rounded again.
TEST(Separate, NormEqualsTheModel) {
  const auto round_bf16 = [](double v) {
    const double magnitude = bf16_table().value(bf16_table().nearest(std::fabs(v)));
    return static_cast<float>(std::copysign(magnitude, v));
  };
  for (int64_t hidden : {1, 7, 100, 2048, 2049, 5000}) {
    const auto bytes = make_data(Data::normal, DType::bf16, hidden, 9);
    const auto x = values_of(DType::bf16, bytes);
    const auto weight = values_of(DType::f32, make_data(Data::normal, DType::f32, hidden, 10));
    RmsNorm norm;
    norm.weight = view_of(weight.data(), DType::f32, {hidden});
    const TensorView view = view_of(bytes.data(), DType::bf16, {1, hidden});
    const auto y = values_of(DType::bf16,
                             call_into_rows(view, hidden, DType::bf16, [&](const TensorView& out) {
                               return rms_norm(view, norm, out);
                             }));
    const float mean = div_exactly(SquareSumModel(x).sum(), static_cast<float>(hidden));
    const float t = div_exactly(1.0F, sqrt_exactly(add_exactly(mean, 1e-6F)));
    for (size_t i = 0; i < y.size(); ++i) {
      const float scaled = round_bf16(mul_exactly(x[i], t));
      ASSERT_EQ(bits_of(y[i]), bits_of(round_bf16(mul_exactly(scaled, weight[i]))))
          << "element " << i << " of " << hidden;
    }
  }
}

// The sum that is normed is the sum that is stored.
TEST(Separate, ResidualInPlace) {
  const auto x = data_of(DType::bf16, {1.0F, 256.0F, -3.0F, 0.0F});
  auto residual = data_of(DType::bf16, {0.00390625F, 1.0F, 3.0F, NAN});
  // 1 + 2^-8 is a tie and goes to 1; 257 is a tie and goes to 256; -3 + 3 = +0; NaN is 0x7FFF.
  const std::vector<float> weight(4, 1.0F);
  RmsNorm norm;
  norm.weight = view_of(weight.data(), DType::f32, {4});
  norm.residual = view_of(residual.data(), DType::bf16, {1, 4});
  const TensorView view = view_of(x.data(), DType::bf16, {1, 4});
  std::vector<uint16_t> y(4);
  ASSERT_TRUE(rms_norm(view, norm, view_of(y.data(), DType::bf16, {1, 4})).ok());
  std::vector<uint16_t> stored(4);
  std::memcpy(stored.data(), residual.data(), 8);
  EXPECT_EQ(stored, (std::vector<uint16_t>{0x3F80, 0x4380, 0x0000, 0x7FFF}));
  EXPECT_EQ(y, std::vector<uint16_t>(4, 0x7FFF));  // one NaN makes the sum NaN
}

TEST(Separate, Relu2) {
  const std::vector<float> x = {3.0F, -3.0F, 0.0F, -0.0F, INFINITY, -INFINITY, NAN, 1e-30F, 1e30F};
  std::vector<float> y(x.size());
  ASSERT_TRUE(
      relu2(view_of(x.data(), DType::f32, {1, 9}), view_of(y.data(), DType::f32, {1, 9})).ok());
  const std::vector<uint32_t> expected = {bits_of(9.0F), 0,         0, 0, 0x7F800000, 0, 0x7FFFFFFF,
                                          0 /* 1e-60 */, 0x7F800000};
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(bits_of(y[i]), expected[i]) << x[i];
}

}  // namespace
}  // namespace rowscale::test
