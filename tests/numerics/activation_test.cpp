// The activations over all bf16 and fp16 inputs: bit for bit the documented steps in exact
// arithmetic, and within a bound of the true mathematical function.
#include "numerics/activation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tests/support/code_table.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/exact_model.hpp"
#include "tests/support/sweep.hpp"

namespace rowscale::numerics {
namespace {

using test::bits_of;
using test::float_of;
using test::Mismatches;
using test::mul_exactly;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kUps[] = {1.0F, -2.75F, 0.0F, -1.0F, 6.99F, 20.0F, -20.0F, 1e-3F};

// NaN of any form counts as one value: its sign and payload are not promised before a store.
uint32_t comparable(float x) {
  return std::isnan(x) ? 0x7FFFFFFFU : bits_of(x);
}

template <class T>
const test::CodeTable& table_of();
template <>
const test::CodeTable& table_of<Bf16>() {
  return test::bf16_table();
}
template <>
const test::CodeTable& table_of<Fp16>() {
  return test::fp16_table();
}

// r(x) by the table of the dtype's values.
template <class T>
float rounded(float x) {
  if (std::isnan(x)) return x;
  const test::CodeTable& table = table_of<T>();
  const uint32_t code = table.nearest(std::fabs(static_cast<double>(x)));
  const float value = code == table.last_code() ? kInfinity : static_cast<float>(table.value(code));
  return std::copysign(value, x);
}

// f(x) for all 65536 values of T, by the library's own widening (tested in float16_test.cpp).
template <class T, class Function>
void for_all_inputs(Function f) {
  for (uint32_t pattern = 0; pattern < 0x10000U; ++pattern) {
    f(to_f32(T{static_cast<uint16_t>(pattern)}));
  }
}

template <class T>
class Activation : public testing::Test {};
using Types = testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(Activation, Types);

TYPED_TEST(Activation, SwishIsTheDocumentedSteps) {
  for (const float alpha : {1.0F, 1.702F}) {
    Mismatches found;
    for_all_inputs<TypeParam>([&](float g) {
      found.check(bits_of(g), comparable(swish(g, alpha)), comparable(test::swish_model(g, alpha)));
    });
    EXPECT_EQ(found.count, 0U) << "alpha " << alpha << ": " << found;
  }
}

TYPED_TEST(Activation, SiluOfProfileVllmIsTheDocumentedSteps) {
  Mismatches found;
  for_all_inputs<TypeParam>([&](float g) {
    found.check(bits_of(g), comparable(silu_quotient(g)), comparable(test::silu_quotient_model(g)));
    found.check(bits_of(g), comparable(silu_product(g)), comparable(test::silu_product_model(g)));
  });
  EXPECT_EQ(found.count, 0U) << found;
}

TYPED_TEST(Activation, GeluTanhIsTheDocumentedSteps) {
  Mismatches found;
  for_all_inputs<TypeParam>([&](float g) {
    found.check(bits_of(g), comparable(gelu_tanh(g)), comparable(test::gelu_tanh_model(g)));
  });
  EXPECT_EQ(found.count, 0U) << found;
}

// The activation is rounded to the input's dtype before the product, the product is not.
TYPED_TEST(Activation, ProductsRoundTheActivationFirst) {
  Mismatches found;
  for (const float up : kUps) {
    for_all_inputs<TypeParam>([&](float g) {
      const float silu = rounded<TypeParam>(test::swish_model(g, 1.0F));
      found.check(bits_of(g), comparable(silu_mul<TypeParam>(g, up)),
                  comparable(mul_exactly(silu, up)), bits_of(up));
      const float gelu = rounded<TypeParam>(test::gelu_tanh_model(g));
      found.check(bits_of(g), comparable(gelu_tanh_mul<TypeParam>(g, up)),
                  comparable(mul_exactly(gelu, up)), bits_of(up));
    });
  }
  EXPECT_EQ(found.count, 0U) << found;
}

TYPED_TEST(Activation, SwigluClampedIsTheDocumentedSteps) {
  Mismatches found;
  for (const float up : {1.0F, -2.75F, -1.0F, 6.99F, 7.0F, 20.0F, -20.0F, kInfinity, kNan}) {
    for_all_inputs<TypeParam>([&](float g) {
      found.check(bits_of(g), comparable(swiglu_clamped(g, up, 1.702F, 7.0F)),
                  comparable(test::swiglu_clamped_model(g, up, 1.702F, 7.0F)), bits_of(up));
      found.check(bits_of(up), comparable(swiglu_clamped(up, g, 1.702F, 7.0F)),
                  comparable(test::swiglu_clamped_model(up, g, 1.702F, 7.0F)), bits_of(g));
    });
  }
  EXPECT_EQ(found.count, 0U) << found;
}

TYPED_TEST(Activation, Relu2IsTheRoundedSquare) {
  Mismatches found;
  for_all_inputs<TypeParam>([&](float x) {
    const float want = std::isnan(x) ? x : (std::signbit(x) ? 0.0F : mul_exactly(x, x));
    found.check(bits_of(x), comparable(relu2(x)), comparable(want));
  });
  EXPECT_EQ(found.count, 0U) << found;
}

// --- Distance from the true function. The unit is that of error_in_ulp, fp32. ---

double true_swish(double g, double alpha) {
  return g / (1.0 + std::exp(-alpha * g));
}

double true_gelu_tanh(double g) {
  // 0.5 * (1 + tanh(y)) = 1 / (1 + exp(-2y)), which does not cancel.
  const double y = 0.7978845608 * (g + 0.044715 * g * g * g);
  return g / (1.0 + std::exp(-2.0 * y));
}

template <class T>
double worst_swish_error(float alpha) {
  double worst = 0.0;
  for_all_inputs<T>([&](float g) {
    if (!std::isfinite(g)) return;
    const double truth = true_swish(static_cast<double>(g), static_cast<double>(alpha));
    const float w = alpha * g;
    if (w < -87.0F) {
      // Here exp is taken as 0. What is lost is below 88 * exp(-87).
      EXPECT_EQ(bits_of(swish(g, alpha)), 0x80000000U) << g;
      EXPECT_LT(std::fabs(truth), 1.5e-36) << g;
      return;
    }
    worst = std::max(worst, test::error_in_ulp(swish(g, alpha), truth));
  });
  return worst;
}

// Alpha 1: exp 0.87, the sum, the product and the quotient half an ulp each. Otherwise alpha * g is
// rounded, and exp turns half an ulp of an argument near 87 into a relative 32 ulp.
TYPED_TEST(Activation, SwishErrorAgainstTheTrueFunction) {
  const double plain = worst_swish_error<TypeParam>(1.0F);
  EXPECT_LE(plain, 2.5);
  EXPECT_GT(plain, 0.5);
  const double scaled = worst_swish_error<TypeParam>(1.702F);
  EXPECT_LE(scaled, 70.0);
  EXPECT_GT(scaled, 0.5);
}

// Where 1 + h cancels, ulp of the result mean nothing: the bound is relative to |g|, plus one step
// of the subnormals for the tiny g.
TYPED_TEST(Activation, GeluTanhErrorAgainstTheTrueFunction) {
  constexpr double kBound = 2.0;  // in units of 2^-24 |g|
  double worst = 0.0;
  for_all_inputs<TypeParam>([&](float g) {
    if (!std::isfinite(g)) return;
    const double truth = true_gelu_tanh(static_cast<double>(g));
    const double error = std::fabs(static_cast<double>(gelu_tanh(g)) - truth);
    const double unit = std::ldexp(std::fabs(static_cast<double>(g)), -24);
    const double beyond_subnormal_step = std::max(error - std::ldexp(1.0, -149), 0.0);
    if (unit > 0.0) worst = std::max(worst, beyond_subnormal_step / unit);
  });
  EXPECT_LE(worst, kBound);
  EXPECT_GT(worst, 0.5);
}

// The activation times up: half an ulp of T for r, and a little for everything in fp32.
TYPED_TEST(Activation, ProductsErrorAgainstTheTrueFunction) {
  const bool bf16 = std::is_same_v<TypeParam, Bf16>;
  const double half_ulp = std::ldexp(1.0, bf16 ? -9 : -12) * 2.0;  // relative to the power below
  const double half_step = std::ldexp(1.0, bf16 ? -134 : -25);     // of the subnormals
  for_all_inputs<TypeParam>([&](float g) {
    if (!(std::fabs(g) <= 60000.0F)) return;  // beyond, fp16 products of gelu may round to infinity
    const auto x = static_cast<double>(g);
    const auto allowed = [&](double truth, double fp32_error) {
      return 2.75 * (std::fabs(truth) * half_ulp + half_step + fp32_error) * 1.01;
    };
    const double silu = true_swish(x, 1.0);
    ASSERT_NEAR(static_cast<double>(silu_mul<TypeParam>(g, -2.75F)), -2.75 * silu,
                allowed(silu, 1.5e-36))
        << g;
    const double gelu = true_gelu_tanh(x);
    ASSERT_NEAR(static_cast<double>(gelu_tanh_mul<TypeParam>(g, -2.75F)), -2.75 * gelu,
                allowed(gelu, std::ldexp(3.0 * std::fabs(x), -24)))
        << g;
  });
}

// gate in [-50, 7], up in [-7, 7]: swish with alpha 1.702 and two more roundings.
TYPED_TEST(Activation, SwigluClampedErrorAgainstTheTrueFunction) {
  double worst = 0.0;
  for (const float up : {0.0F, 3.3F, 7.0F, 9.0F, -0.5F, -7.0F, -8.0F}) {
    for_all_inputs<TypeParam>([&](float gate) {
      if (!std::isfinite(gate) || gate < -50.0F) return;
      const double u = std::clamp(static_cast<double>(up), -7.0, 7.0);
      const double g = std::min(static_cast<double>(gate), 7.0);
      const double truth = (u + 1.0) * true_swish(g, static_cast<double>(1.702F));
      worst = std::max(worst, test::error_in_ulp(swiglu_clamped(gate, up, 1.702F, 7.0F), truth));
    });
  }
  EXPECT_LE(worst, 70.0);
  EXPECT_GT(worst, 0.5);
}

TEST(ActivationSpecials, Swish) {
  for (const float alpha : {1.0F, 1.702F}) {
    EXPECT_TRUE(std::isnan(swish(-kInfinity, alpha)));
    EXPECT_EQ(bits_of(swish(kInfinity, alpha)), bits_of(kInfinity));
    EXPECT_TRUE(std::isnan(swish(kNan, alpha)));
    EXPECT_EQ(bits_of(swish(0.0F, alpha)), 0U);
    EXPECT_EQ(bits_of(swish(-0.0F, alpha)), 0x80000000U);
    EXPECT_EQ(bits_of(swish(100.0F, alpha)), bits_of(100.0F));
    EXPECT_EQ(bits_of(swish(-1e30F, alpha)), 0x80000000U);
    EXPECT_EQ(bits_of(swish(0x1.fffffep127F, alpha)), bits_of(0x1.fffffep127F));
  }
  // The last argument of exp, and the first one taken as 0.
  EXPECT_NE(swish(-87.0F, 1.0F), 0.0F);
  EXPECT_EQ(bits_of(swish(test::step_away(-87.0F, 1), 1.0F)), 0x80000000U);
}

TEST(ActivationSpecials, GeluTanh) {
  EXPECT_TRUE(std::isnan(gelu_tanh(kNan)));
  EXPECT_TRUE(std::isnan(gelu_tanh(-kInfinity)));  // -inf * 0, as in torch
  EXPECT_EQ(bits_of(gelu_tanh(kInfinity)), bits_of(kInfinity));
  EXPECT_EQ(bits_of(gelu_tanh(0.0F)), 0U);
  EXPECT_EQ(bits_of(gelu_tanh(-0.0F)), 0x80000000U);
  // The cube overflows; the result does not.
  EXPECT_EQ(bits_of(gelu_tanh(1e30F)), bits_of(1e30F));
  EXPECT_EQ(bits_of(gelu_tanh(-1e30F)), 0x80000000U);
}

TEST(ActivationSpecials, Relu2) {
  EXPECT_EQ(bits_of(relu2(3.0F)), bits_of(9.0F));
  EXPECT_EQ(bits_of(relu2(-3.0F)), 0U);
  EXPECT_EQ(bits_of(relu2(-0.0F)), 0U);
  EXPECT_EQ(bits_of(relu2(-kInfinity)), 0U);
  EXPECT_EQ(bits_of(relu2(kInfinity)), bits_of(kInfinity));
  EXPECT_EQ(bits_of(relu2(1e20F)), bits_of(kInfinity));
  EXPECT_TRUE(std::isnan(relu2(kNan)));
  EXPECT_TRUE(std::isnan(relu2(-kNan)));
}

TEST(ActivationSpecials, SwigluClampedLimits) {
  const auto f = [](float gate, float up) { return swiglu_clamped(gate, up, 1.702F, 7.0F); };
  EXPECT_TRUE(std::isnan(f(kNan, 1.0F)));
  EXPECT_TRUE(std::isnan(f(1.0F, kNan)));
  EXPECT_TRUE(std::isnan(f(-kInfinity, 1.0F)));  // the gate has no lower limit
  EXPECT_EQ(bits_of(f(kInfinity, 1.0F)), bits_of(f(7.0F, 1.0F)));
  EXPECT_EQ(bits_of(f(2.0F, kInfinity)), bits_of(f(2.0F, 7.0F)));
  EXPECT_EQ(bits_of(f(2.0F, -kInfinity)), bits_of(f(2.0F, -7.0F)));
  EXPECT_NE(bits_of(f(6.5F, 1.0F)), bits_of(f(7.0F, 1.0F)));
  EXPECT_NE(bits_of(f(2.0F, 6.5F)), bits_of(f(2.0F, 7.0F)));
  EXPECT_NE(bits_of(f(2.0F, -6.5F)), bits_of(f(2.0F, -7.0F)));
  EXPECT_EQ(bits_of(f(2.0F, -1.0F)), 0U);
}

}  // namespace
}  // namespace rowscale::numerics
