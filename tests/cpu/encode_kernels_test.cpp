// Scales, divisors and codes by the kernel tables: every SIMD table against the scalar one, over
// all bf16 and fp16 patterns, a dense stride of the fp32 ones, and scales at every border of a
// shortcut.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cpu/kernels.hpp"
#include "cpu/target.hpp"
#include "rowscale/exec.hpp"
#include "tests/support/sweep.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

using cpu::Divisors;
using cpu::Kernels;

constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};
constexpr Format kBothFormats[] = {Format::e4m3, Format::e5m2};
constexpr Quotient kBothQuotients[] = {Quotient::divide, Quotient::reciprocal};
constexpr NanRule kNanRules[] = {NanRule::propagate, NanRule::clamp_high, NanRule::clamp_low};

float max_of(Format format) {
  return format == Format::e4m3 ? 448.0F : 57344.0F;
}

// Every pattern of a 16-bit dtype; of f32 every 8191st (a prime).
std::vector<std::byte> patterns(DType dtype, uint32_t start = 0) {
  std::vector<std::byte> bytes;
  const uint64_t stride = dtype == DType::f32 ? uint64_t{8191} * kSlower : 1;
  const uint64_t last = dtype == DType::f32 ? 0xFFFFFFFFU : 0xFFFFU;
  for (uint64_t bits = dtype == DType::f32 ? start : 0; bits <= last; bits += stride) {
    const auto* at = reinterpret_cast<const std::byte*>(&bits);
    bytes.insert(bytes.end(), at, at + element_size(dtype));
  }
  return bytes;
}

int64_t count_of(DType dtype, const std::vector<std::byte>& bytes) {
  return static_cast<int64_t>(bytes.size()) / element_size(dtype);
}

// Floats around powers of two at which a shortcut may begin or end, ordinary ones, and those that
// no amax gives.
std::vector<float> scales() {
  std::vector<float> list = {1.0F / 448.0F,   0.0123F,   3.0F,          0x1.fffffep0F, 7e-7F,
                             1e20F,           1e-20F,    0.0F,          -0.0F,         -0.75F,
                             INFINITY,        -INFINITY, NAN,           0x1p-149F,     0x1.8p-140F,
                             0x1.fffffep127F, 1e-13F,    2.2321428e-13F};
  for (int exponent :
       {-126, -106, -97, -96, -85, -80, -64, -20, 0, 64, 76, 96, 97, 119, 125, 126, 127}) {
    const uint32_t power = static_cast<uint32_t>(127 + exponent) << 23;
    for (uint32_t bits : {power - 1, power, power + 1}) list.push_back(std::bit_cast<float>(bits));
  }
  return list;
}

testing::AssertionResult same_codes(DType dtype, const std::vector<std::byte>& x,
                                    const std::vector<uint8_t>& got,
                                    const std::vector<uint8_t>& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] != want[i]) {
      return testing::AssertionFailure()
             << "element " << i << " = "
             << load_value(dtype, x.data() + static_cast<int64_t>(i) * element_size(dtype))
             << ": got " << int{got[i]} << ", expected " << int{want[i]};
    }
  }
  return testing::AssertionSuccess();
}

class EncodeKernels : public testing::TestWithParam<Target> {
 protected:
  const Kernels& simd() const { return cpu::kernels(GetParam()); }
  const Kernels& scalar() const { return cpu::scalar_kernels(); }

  static std::vector<uint8_t> encode(const Kernels& kernels, Format format, DType dtype,
                                     const std::vector<std::byte>& x, int64_t group,
                                     const Divisors& divisors, NanRule nan) {
    const int64_t n = count_of(dtype, x);
    std::vector<uint8_t> codes(static_cast<size_t>(n));
    kernels.encode[cpu::index_of(format)][cpu::index_of(dtype)](x.data(), n, group, divisors, nan,
                                                                0, codes.data());
    return codes;
  }
};

// Elements of any magnitude over given scales.
TEST_P(EncodeKernels, GivenScales) {
  const auto ours = std::make_unique<Divisors>();
  const auto theirs = std::make_unique<Divisors>();
  size_t turn = 0;
  for (DType dtype : kFloats) {
    const auto x = patterns(dtype, 17);
    for (float s : scales()) {
      for (Quotient quotient : kBothQuotients) {
        for (Format format : kBothFormats) {
          ours->s[0] = theirs->s[0] = s;
          simd().make_divisors(quotient, 1, ours.get());
          scalar().make_divisors(quotient, 1, theirs.get());
          const NanRule nan = kNanRules[turn++ % 3];
          const int64_t n = count_of(dtype, x);
          ASSERT_TRUE(same_codes(dtype, x, encode(simd(), format, dtype, x, n, *ours, nan),
                                 encode(scalar(), format, dtype, x, n, *theirs, nan)))
              << to_string(dtype) << " / " << s << ", division "
              << static_cast<int>(ours->division[0]) << ", format " << static_cast<int>(format)
              << ", quotient " << static_cast<int>(quotient);
        }
      }
    }
  }
}

// Elements of at most an amax over the scale that it gives, by every floor, bound and encoding.
TEST_P(EncodeKernels, ScalesOfAmax) {
  const auto ours = std::make_unique<Divisors>();
  const auto theirs = std::make_unique<Divisors>();
  const std::vector<float> limits = {0.0F, 1e-30F, 1e-10F, 0.01F, 1e20F, 3e38F};
  for (DType dtype : kFloats) {
    const auto all = patterns(dtype, 5);
    const int64_t size = element_size(dtype);
    for (Format format : kBothFormats) {
      uint64_t seed = 1;
      for (float amax : {0.0F, 0x1p-149F, 1e-30F, 1e-10F, 0.3F, 1.0F, 448.0F, 65504.0F, 1e20F,
                         1e30F, 0x1p105F, 0x1p112F, 0x1.fffffep127F, INFINITY}) {
        std::vector<std::byte> x;
        for (int64_t i = 0; i < count_of(dtype, all); i += dtype == DType::f32 ? 4 : 2) {
          if (std::fabs(load_value(dtype, all.data() + i * size)) > amax) continue;  // NaN stays
          x.insert(x.end(), all.begin() + i * size, all.begin() + (i + 1) * size);
        }
        const int64_t n = count_of(dtype, x);
        for (FloorKind floor :
             {FloorKind::none, FloorKind::amax, FloorKind::scale, FloorKind::if_zero}) {
          for (BoundKind bound : {BoundKind::none, BoundKind::amax, BoundKind::scale}) {
            Random random(++seed);
            numerics::ScaleRule rule;
            rule.max = max_of(format);
            rule.floor = floor;
            rule.floor_value = random.pick(limits);
            rule.bound = bound;
            rule.bound_value = random.below(5) == 0 ? NAN : random.pick(limits);
            rule.encoding = random.below(3) == 0 ? ScaleEncoding::ue8m0 : ScaleEncoding::f32;
            const Quotient quotient = random.pick(kBothQuotients);
            const NanRule nan = random.pick(kNanRules);
            simd().make_scales(rule, quotient, &amax, 1, ours.get());
            scalar().make_scales(rule, quotient, &amax, 1, theirs.get());
            ASSERT_EQ(std::bit_cast<uint32_t>(ours->s[0]), std::bit_cast<uint32_t>(theirs->s[0]))
                << "amax " << amax << ", floor " << static_cast<int>(floor) << " "
                << rule.floor_value << ", bound " << static_cast<int>(bound) << " "
                << rule.bound_value;
            ASSERT_TRUE(same_codes(dtype, x, encode(simd(), format, dtype, x, n, *ours, nan),
                                   encode(scalar(), format, dtype, x, n, *theirs, nan)))
                << to_string(dtype) << ", amax " << amax << ", scale " << ours->s[0]
                << ", division " << static_cast<int>(ours->division[0]) << ", format "
                << static_cast<int>(format);
          }
        }
      }
    }
  }
}

// A full table of scales at once, and every count below it that leaves a vector partly used.
TEST_P(EncodeKernels, ManyScales) {
  const auto amax = values_of(DType::f32, make_data(Data::wide, DType::f32, cpu::kMaxGroups, 3));
  std::vector<float> magnitudes(amax.size());
  for (size_t i = 0; i < amax.size(); ++i) magnitudes[i] = std::fabs(amax[i]);
  for (int64_t count : {1, 2, 7, 8, 9, 15, 16, 17, 31, 500, 1023, 1024}) {
    for (ScaleEncoding encoding : {ScaleEncoding::f32, ScaleEncoding::ue8m0}) {
      numerics::ScaleRule rule;
      rule.floor = FloorKind::amax;
      rule.floor_value = 1e-10F;
      rule.encoding = encoding;
      const auto ours = std::make_unique<Divisors>();
      const auto theirs = std::make_unique<Divisors>();
      simd().make_scales(rule, Quotient::divide, magnitudes.data(), count, ours.get());
      scalar().make_scales(rule, Quotient::divide, magnitudes.data(), count, theirs.get());
      EXPECT_EQ(std::memcmp(ours->s, theirs->s, static_cast<size_t>(count) * sizeof(float)), 0)
          << count;
      // An element each: its own amax, so the code is the largest of its sign.
      std::vector<std::byte> x(static_cast<size_t>(count) * 4);
      std::memcpy(x.data(), amax.data(), x.size());
      EXPECT_EQ(encode(simd(), Format::e4m3, DType::f32, x, 1, *ours, NanRule::propagate),
                encode(scalar(), Format::e4m3, DType::f32, x, 1, *theirs, NanRule::propagate))
          << count;
    }
  }
}

// Groups of every size around the vectors, each with a scale of another kind.
TEST_P(EncodeKernels, Groups) {
  const std::vector<float> list = scales();
  const auto ours = std::make_unique<Divisors>();
  const auto theirs = std::make_unique<Divisors>();
  for (DType dtype : kFloats) {
    for (int64_t group = 1; group <= 140; ++group) {
      const int64_t n = 6 * group + group / 2;
      const auto x = make_data(group % 2 == 0 ? Data::wide : Data::raw, dtype, n,
                               static_cast<uint64_t>(group));
      const int64_t groups = (n + group - 1) / group;
      for (int64_t g = 0; g < groups; ++g) {
        ours->s[g] = theirs->s[g] = list[static_cast<size_t>(g * 3 + group) % list.size()];
      }
      const Quotient quotient = kBothQuotients[group % 2];
      simd().make_divisors(quotient, groups, ours.get());
      scalar().make_divisors(quotient, groups, theirs.get());
      for (Format format : kBothFormats) {
        ASSERT_TRUE(same_codes(
            dtype, x, encode(simd(), format, dtype, x, group, *ours, NanRule::clamp_high),
            encode(scalar(), format, dtype, x, group, *theirs, NanRule::clamp_high)))
            << to_string(dtype) << ", group " << group;
      }
    }
  }
}

TEST_P(EncodeKernels, Columns) {
  const std::vector<float> list = scales();
  for (DType dtype : kFloats) {
    const auto x = patterns(dtype, 3);
    const int64_t n = count_of(dtype, x);
    for (size_t shift = 0; shift < list.size(); shift += kSlower) {
      std::vector<float> s(static_cast<size_t>(n));
      for (size_t i = 0; i < s.size(); ++i) s[i] = list[(i + shift) % list.size()];
      std::vector<uint8_t> got(s.size());
      std::vector<uint8_t> want(s.size());
      const size_t format = shift % 2;
      const Quotient quotient = kBothQuotients[shift / 2 % 2];
      const NanRule nan = kNanRules[shift % 3];
      simd().encode_columns[format][cpu::index_of(dtype)](x.data(), n, s.data(), quotient, nan,
                                                          got.data());
      scalar().encode_columns[format][cpu::index_of(dtype)](x.data(), n, s.data(), quotient, nan,
                                                            want.data());
      ASSERT_TRUE(same_codes(dtype, x, got, want)) << to_string(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Simd, EncodeKernels, testing::ValuesIn([] {
                           std::vector<Target> targets = supported_targets();
                           std::erase(targets, Target::scalar);
                           return targets;
                         }()),
                         [](const auto& test) { return to_string(test.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EncodeKernels);

}  // namespace
}  // namespace rowscale::test
