// requantize: through fp32 and nothing narrower, in place and out of place, and to scales of powers
// of two.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/code_table.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

std::vector<uint8_t> random_codes(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> codes(static_cast<size_t>(count));
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random.next());
  return codes;
}

Outputs requantized(const TensorView& codes, const ScaleSpec& spec,
                    const std::vector<std::byte>& scales, const Recipe& in, const Recipe& out,
                    const CallOptions& options = {}) {
  return call_quantizer(
      codes, codes.columns(), out, options, [&](const TensorView& c, const TensorView& s) {
        return requantize(codes, spec.view(scales.data()), in, c, s, out, options.exec);
      });
}

// The same as dequantizing to fp32 and quantizing that, for any two recipes.
TEST(Requantize, EqualsTheChainThroughFp32) {
  uint64_t seed = 0;
  for (const Recipe& in : all_recipes(48, 4, 33)) {
    for (const Recipe& base : all_recipes(40, 3, 50)) {
      const Recipe out = with(base, ++seed % 2 == 0 ? Format::e4m3 : Format::e5m2);
      const auto codes = random_codes(6 * 130, seed);
      const TensorView view = view_of(codes.data(), DType::e4m3, {6, 130});
      const ScaleSpec spec = spec_of(view, in);
      const auto scales = make_scales(spec, in.encoding, seed);
      CallOptions options;
      if (out.scale_source == ScaleSource::given) {
        options.given = make_scales(spec_of(view, out), out.encoding, seed + 1);
      }
      const auto y = run_dequantize(view, spec.view(scales.data()), in, DType::f32);
      const Outputs chain = run_quantize(view_of(y.data(), DType::f32, {6, 130}), out, options);
      EXPECT_TRUE(same_outputs(requantized(view, spec, scales, in, out, options), chain))
          << to_string(in) << "\nto " << to_string(out);
    }
  }
}

TEST(Requantize, InPlaceEqualsOutOfPlace) {
  uint64_t seed = 100;
  for (const Recipe& in : {per_tensor(), per_token(), per_group(32), per_block(2, 64)}) {
    for (const Recipe& base : all_recipes(48, 3, 50)) {
      if (base.granularity == Granularity::per_column) continue;
      for (int threads : {1, 2}) {
        const Recipe out = with(base, ++seed % 2 == 0 ? Format::e4m3 : Format::e5m2);
        for (const auto& [rows, columns] : {std::pair{5, 130}, std::pair{2, 40000}}) {
          if (columns > 1000 && seed % 5 != 0) continue;
          auto codes = random_codes(rows * columns, seed);
          const TensorView view = view_of(codes.data(), DType::e4m3, {rows, columns});
          const ScaleSpec spec = spec_of(view, in);
          const auto scales = make_scales(spec, in.encoding, seed);
          CallOptions options;
          options.exec.threads = threads;
          const Outputs apart = requantized(view, spec, scales, in, out, options);
          TensorView same = view;
          same.dtype = code_dtype(out);
          const ScaleSpec out_spec = spec_of(same, out);
          GuardedBuffer out_scales(scale_bytes(out_spec));
          const Status status = requantize(view, spec.view(scales.data()), in, same,
                                           out_spec.view(out_scales.data()), out, options.exec);
          ASSERT_TRUE(status.ok()) << status.message();
          EXPECT_EQ(std::memcmp(codes.data(), apart.codes.data(), codes.size()), 0)
              << to_string(in) << "\nto " << to_string(out);
          EXPECT_TRUE(same_bytes(out_scales.content(), apart.scales)) << to_string(out);
        }
      }
    }
  }
}

// e4m3 has 4 significant bits and a scale 24, so x = code * scale needs more than bf16 has. The
// code 0x39 (1.125) times 1.0555556 is 1.1875 less a little: below the tie between 0x39 and 0x3A at
// 1.1875 when divided by 1. Through bf16 it would be 1.1875 itself, a tie that goes to 0x3A.
TEST(Requantize, HasNoSixteenBitStep) {
  const uint8_t code = 0x39;
  const float scale = float_of(bits_of(1.1875F / 1.125F) - 1);
  const float x = 1.125F * scale;
  ASSERT_LT(x, 1.1875F);
  ASSERT_EQ(std::bit_cast<uint32_t>(numerics::to_f32(numerics::round_to<numerics::Bf16>(x))),
            std::bit_cast<uint32_t>(1.1875F));
  ASSERT_EQ(numerics::to_f32(numerics::round_to<numerics::Fp16>(x)), 1.1875F);
  uint8_t out = 0xEE;
  float one = 1.0F;
  const Recipe given = with(per_tensor(), ScaleSource::given);
  const Status status = requantize(TensorView::contiguous(&code, DType::e4m3, {1, 1}),
                                   TensorView::contiguous(&scale, DType::f32, {1}), given,
                                   TensorView::contiguous(&out, DType::e4m3, {1, 1}),
                                   TensorView::contiguous(&one, DType::f32, {1}), given);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(out, 0x39);
}

// All codes to all powers of two, by an independent table: x = value * 2^e is exact there, and the
// new code is its nearest.
TEST(Requantize, PowersOfTwoByTheTable) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  const TensorView view = view_of(codes.data(), DType::e4m3, {1, 256});
  const Recipe given = with(with(per_tensor(), ScaleEncoding::ue8m0), ScaleSource::given);
  for (int shift = -12; shift <= 12; ++shift) {
    uint8_t in_scale = 127;
    auto out_scale = static_cast<uint8_t>(127 + shift);
    std::vector<uint8_t> out(256);
    ASSERT_TRUE(requantize(view, TensorView::contiguous(&in_scale, DType::ue8m0, {1}), given,
                           view_of(out.data(), DType::e4m3, {1, 256}),
                           TensorView::contiguous(&out_scale, DType::ue8m0, {1}), given)
                    .ok());
    for (uint32_t code = 0; code < 256; ++code) {
      const uint32_t magnitude = code & 0x7F;
      uint32_t expected = 0x7F;
      if (magnitude != 0x7F) {
        const double value = std::ldexp(value_by_definition(magnitude, 3, 7), -shift);
        expected = (code & 0x80) | e4m3_table().nearest(value);
      }
      EXPECT_EQ(out[code], expected) << "code " << code << " to 2^" << shift;
    }
  }
}

// From exact f32 scales to powers of two: the codes change with the scale and the value stays
// (B08). 448 * (1/448) = 1 becomes 256 * 2^-8.
TEST(Requantize, ToUe8m0) {
  for (const Recipe& out : {with(per_block(128, 128), ScaleEncoding::ue8m0),
                            with(per_block(128, 128), ScaleEncoding::ue8m0_f32),
                            with(per_group(128), ScaleEncoding::ue8m0),
                            with(per_group(128), ScaleEncoding::ue8m0_packed)}) {
    std::vector<uint8_t> codes(128 * 128, 0x7E);
    const float scale = 1.0F / 448.0F;
    const Recipe in = per_block(128, 128);
    const TensorView view = view_of(codes.data(), DType::e4m3, {128, 128});
    const ScaleSpec spec = spec_of(view, in);
    const Outputs result = requantized(view, spec, data_of(DType::f32, {scale}), in, out);
    EXPECT_EQ(result.codes, std::vector<std::byte>(128 * 128, std::byte{0x78})) << to_string(out);
    const ScaleSpec out_spec = spec_of(view, out);
    const auto y = run_dequantize(view_of(result.codes.data(), DType::e4m3, {128, 128}),
                                  out_spec.view(result.scales.data()), out, DType::f32);
    EXPECT_EQ(values_of(DType::f32, y), std::vector<float>(128 * 128, 1.0F)) << to_string(out);
  }
}

}  // namespace
}  // namespace rowscale::test
