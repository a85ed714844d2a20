// The short silu of bf16 against the fp32 one (activation_test holds that to long double), each
// rounded to bf16: every input.
#include "numerics/fast_silu.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "numerics/activation.hpp"
#include "numerics/float16.hpp"

namespace rowscale::numerics {
namespace {

TEST(FastSilu, EveryBf16) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float g = to_f32(Bf16{static_cast<uint16_t>(bits)});
    const float fast = fast_silu(g, fast_exp, [](float d) {
      const float reciprocal = div(1.0F, d);
      return reciprocal < 0x1p-126F ? 0.0F : reciprocal;
    });
    ASSERT_EQ(round_to<Bf16>(fast).bits, round_to<Bf16>(swish(g, 1.0F)).bits) << std::hex << bits;
  }
}

}  // namespace
}  // namespace rowscale::numerics
