// More than 2^31 elements of input, real ones on both sides: SiLU-mul of a prompt that is too long
// for 32 bits, a norm with its residual, and each element by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/cuda/support/cases.hpp"
#include "tests/cuda/support/fused_calls.hpp"
#include "tests/cuda/support/tiled.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

class FusedBeyondInt32 : public GpuTest {
 protected:
  // Each recipe on rows [tokens, hidden] of bf16; x begins `shift` bytes behind an alignment.
  static void expect_equal(const Producer& producer, int64_t tokens, int64_t hidden, int64_t shift,
                           const std::vector<Recipe>& recipes) {
    FusedCase c{producer, {}};
    c.x = shape_view(DType::bf16, {tokens, hidden * producer.inputs()});
    ASSERT_GT(c.x.rows() * c.x.columns(), int64_t{1} << 31);
    c.shift.x = shift;
    const int64_t x_bytes = extent_of(c.x).bytes + (int64_t{1} << 20);
    int64_t image_bytes = tokens * hidden * (producer.has_residual() ? 3 : 1);
    int64_t scales = 0;
    for (const Recipe& recipe : recipes) {
      const ScaleSpec spec = spec_of(shape_view(DType::e4m3, {tokens, hidden}), recipe);
      scales = std::max(scales, scale_bytes(spec));
    }
    image_bytes += scales + (int64_t{1} << 20);
    const std::string reason = too_large(x_bytes + 2 * image_bytes, x_bytes + image_bytes);
    if (!reason.empty()) GTEST_SKIP() << reason;
    const Tiled data(PoolKind::finite, DType::bf16, x_bytes);
    c.pool = &data.shared();
    c.weights = &data_pool(PoolKind::finite, producer.weight);
    Lane lane(image_bytes);
    for (const Recipe& recipe : recipes) {
      lane.reset();
      c.recipe = recipe;
      const FusedSlots slots = reserve(lane, c, FusedCall::fused);
      Exec exec;
      exec.threads = 0;  // the CPU takes all that it has
      const auto difference = lane.compare(
          exec, 0, [&](const Side& side) { return call_on(side, c, slots, FusedCall::fused); });
      ASSERT_FALSE(difference) << to_string(c, FusedCall::fused) << ": " << difference->text;
    }
  }
};

TEST_F(FusedBeyondInt32, SiluMul) {
  expect_equal({plan::SourceKind::silu_mul}, 61700, 17408, 0,
               {per_group(128), with(per_token(), Format::e5m2)});
}

TEST_F(FusedBeyondInt32, SiluMulByElements) {
  expect_equal({plan::SourceKind::silu_mul}, 61700, 17408, 2, {per_group(128)});
}

TEST_F(FusedBeyondInt32, RmsNormWithResidual) {
  Producer norm = {plan::SourceKind::rms_norm};
  norm.residual = Residual::in_place;
  expect_equal(norm, 262147, 8200, 0, {per_token(), per_group(128)});
}

TEST_F(FusedBeyondInt32, RmsNormByElements) {
  expect_equal({plan::SourceKind::rms_norm}, 262147, 8193, 2, {per_group(128)});
}

}  // namespace
}  // namespace rowscale::test
