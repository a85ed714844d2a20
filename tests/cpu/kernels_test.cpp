// absmax and decode by the kernel tables: every SIMD table against the scalar one.
#include "cpu/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cpu/target.hpp"
#include "rowscale/exec.hpp"
#include "tests/support/sweep.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

using cpu::Kernels;

constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};
constexpr Format kBothFormats[] = {Format::e4m3, Format::e5m2};

class KernelTables : public testing::TestWithParam<Target> {
 protected:
  const Kernels& simd() const { return cpu::kernels(GetParam()); }
  const Kernels& scalar() const { return cpu::scalar_kernels(); }
};

// Every 4099th float (a prime).
std::vector<float> some_floats(uint32_t start) {
  std::vector<float> values;
  for (uint64_t bits = start; bits <= 0xFFFFFFFFU; bits += uint64_t{4099} * kSlower) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return values;
}

TEST_P(KernelTables, Absmax) {
  for (DType dtype : kFloats) {
    for (Data data : kAllData) {
      for (int64_t group : {1, 2, 7, 8, 16, 17, 31, 64, 127, 128, 129, 500, 5000}) {
        const auto x = make_data(data, dtype, 1111, static_cast<uint64_t>(group));
        const auto groups = static_cast<size_t>((1111 + group - 1) / group);
        std::vector<float> got(groups, 0.5F);  // an amax from before, which may only rise
        std::vector<float> want(got);
        simd().absmax[cpu::index_of(dtype)](x.data(), 1111, group, got.data());
        scalar().absmax[cpu::index_of(dtype)](x.data(), 1111, group, want.data());
        ASSERT_EQ(got, want) << to_string(dtype) << " group " << group << " " << to_string(data);
      }
    }
  }
}

// A single large element at each place of a row, both signs.
TEST_P(KernelTables, AbsmaxSeesEveryElement) {
  for (DType dtype : kFloats) {
    for (int64_t n : {1, 15, 64, 130, 517}) {
      for (int64_t at = 0; at < n; ++at) {
        std::vector<float> values(static_cast<size_t>(n), 0.25F);
        values[static_cast<size_t>(at)] = at % 2 == 0 ? 100.0F : -100.0F;
        const auto x = data_of(dtype, values);
        float amax = 0.0F;
        simd().absmax[cpu::index_of(dtype)](x.data(), n, n, &amax);
        ASSERT_EQ(amax, 100.0F) << to_string(dtype) << ", element " << at << " of " << n;
      }
    }
  }
}

// Decode times any scale, rounded: code 0x38 is 1.0 in e4m3, so the scales themselves are rounded.
TEST_P(KernelTables, DecodeRoundsEveryPattern) {
  const std::vector<float> s = some_floats(99);
  const auto n = static_cast<int64_t>(s.size());
  for (Format format : kBothFormats) {
    std::vector<uint8_t> codes(s.size(), format == Format::e4m3 ? 0x38 : 0x3C);
    for (DType dtype : kFloats) {
      const auto decode = simd().decode[cpu::index_of(format)][cpu::index_of(dtype)];
      const auto reference = scalar().decode[cpu::index_of(format)][cpu::index_of(dtype)];
      std::vector<std::byte> got(s.size() * static_cast<size_t>(element_size(dtype)));
      std::vector<std::byte> want(got.size());
      decode(codes.data(), n, 1, s.data(), got.data());
      reference(codes.data(), n, 1, s.data(), want.data());
      ASSERT_EQ(got == want, true) << to_string(dtype);
      // All codes, in groups that end inside vectors.
      std::vector<uint8_t> all(256 * 11);
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint8_t>(i);
      for (int64_t group : {3, 16, 37, 256}) {
        got.assign(all.size() * static_cast<size_t>(element_size(dtype)), std::byte{});
        want = got;
        decode(all.data(), static_cast<int64_t>(all.size()), group, s.data() + 400, got.data());
        reference(all.data(), static_cast<int64_t>(all.size()), group, s.data() + 400, want.data());
        ASSERT_EQ(got == want, true) << to_string(dtype) << ", group " << group;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Simd, KernelTables, testing::ValuesIn([] {
                           std::vector<Target> targets = supported_targets();
                           std::erase(targets, Target::scalar);
                           return targets;
                         }()),
                         [](const auto& test) { return to_string(test.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(KernelTables);

}  // namespace
}  // namespace rowscale::test
