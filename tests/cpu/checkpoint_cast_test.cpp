// The casts of checkpoints: every target against the bytes that llm-compressor wrote, and against
// the scalar law over all 16-bit patterns and a stride of the 32-bit ones.
#include "api/checkpoint_cast.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "cpu/kernels.hpp"
#include "cpu/target.hpp"
#include "numerics/checkpoint_cast.hpp"
#include "rowscale/exec.hpp"

namespace rowscale::test {
namespace {

using checkpoint::SafetensorsFile;
using checkpoint::TensorEntry;

class CheckpointCast : public testing::TestWithParam<Target> {
 protected:
  static Exec exec() {
    Exec out;
    out.target = GetParam();
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Targets, CheckpointCast, testing::ValuesIn(supported_targets()),
                         [](const auto& target) { return to_string(target.param); });

std::vector<std::byte> bytes_of(const SafetensorsFile& file, const TensorEntry& entry) {
  return {file.data(entry), file.data(entry) + entry.bytes()};
}

Recipe recipe_of(const std::string& strategy) {
  if (strategy == "block") return per_block(128, 128);
  if (strategy == "channel") return per_channel();
  Recipe recipe = per_tensor();
  recipe.scale_source = ScaleSource::given;
  return recipe;
}

TEST_P(CheckpointCast, GivesTheBytesOfLlmCompressor) {
  int compared = 0;
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    SafetensorsFile file;
    const std::string path = std::string(ROWSCALE_CAST_GOLDEN) + "/casts_" + dtype + ".safetensors";
    const Status opened = SafetensorsFile::open(path, &file);
    ASSERT_TRUE(opened.ok()) << opened.message();
    for (const TensorEntry& entry : file.tensors()) {
      const std::string name(entry.name);
      const size_t dot = name.rfind(".codes");
      if (dot == std::string::npos) continue;
      const std::string key = name.substr(0, dot);  // "input.strategy"
      const std::string strategy = key.substr(key.rfind('.') + 1);
      const TensorEntry* input = file.find(key.substr(0, key.rfind('.')) + ".input");
      const TensorEntry* scale = file.find(key + ".scale");
      ASSERT_NE(input, nullptr);
      ASSERT_NE(scale, nullptr);
      SCOPED_TRACE(std::string(dtype) + " " + name);

      const std::vector<std::byte> x = bytes_of(file, *input);
      std::vector<std::byte> codes(static_cast<size_t>(entry.bytes()), std::byte{0xA5});
      std::vector<std::byte> scales(static_cast<size_t>(scale->bytes()), std::byte{0xA5});
      DType type = DType::f32;
      ASSERT_TRUE(checkpoint::to_dtype(input->type, &type));
      const auto x_view =
          TensorView::contiguous(x.data(), type, {input->shape[0], input->shape[1]});
      if (strategy == "tensor") {
        float amax = 0.0F;
        ASSERT_TRUE(
            api::checkpoint_absmax(
                x_view, TensorView::contiguous(static_cast<void*>(&amax), DType::f32, {1}), exec())
                .ok());
        api::checkpoint_scale(type, amax, scales.data());
      }
      const Status status = api::checkpoint_quantize(
          x_view, recipe_of(strategy),
          TensorView::contiguous(codes.data(), DType::e4m3, {input->shape[0], input->shape[1]}),
          TensorView::contiguous(static_cast<const void*>(scales.data()), type, scale->shape),
          exec());
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(scales, bytes_of(file, *scale));
      EXPECT_EQ(codes, bytes_of(file, entry));
      ++compared;
    }
  }
  EXPECT_GE(compared, 9);  // three dtypes by three strategies
}

template <class T>
void expect_the_law(Target target, const std::vector<T>& x) {
  const cpu::Kernels& kernels = cpu::kernels(target);
  const int type = std::is_same_v<T, float>            ? cpu::index_of(DType::f32)
                   : std::is_same_v<T, numerics::Bf16> ? cpu::index_of(DType::bf16)
                                                       : cpu::index_of(DType::f16);
  const auto n = static_cast<int64_t>(x.size());
  for (const float s : {0x1p-7F, 0.0123F, 1.0F / 448.0F, 0x1.fep-30F, 0x1p-126F, 0x1p-140F, 3.0F,
                        0x1p100F, INFINITY}) {
    std::vector<uint8_t> codes(x.size());
    kernels.checkpoint_codes[type](x.data(), n, n, &s, codes.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(int{codes[i]}, int{numerics::checkpoint_code<T>(numerics::to_f32(x[i]), s)})
          << to_string(target) << " scale " << s << " element " << numerics::to_f32(x[i]);
    }
  }
}

TEST_P(CheckpointCast, EveryPatternHasTheScalarLawsCode) {
  std::vector<numerics::Bf16> bf16;
  std::vector<numerics::Fp16> f16;
  std::vector<float> f32;
  for (uint32_t bits = 0; bits <= 0xFFFFU; ++bits) {
    bf16.push_back({static_cast<uint16_t>(bits)});
    f16.push_back({static_cast<uint16_t>(bits)});
  }
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFU; bits += 32749) {
    f32.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  expect_the_law(GetParam(), bf16);
  expect_the_law(GetParam(), f16);
  expect_the_law(GetParam(), f32);
}

// A worked double rounding: 1.18604648 becomes 1.1875 in bf16, a tie, and so 0x3A; rounded once it
// would be 0x39.
TEST(CheckpointCastLaw, RoundsTwice) {
  const float x = numerics::to_f32(numerics::Bf16{0x3819});
  const float s = numerics::to_f32(numerics::Bf16{0x3801});
  EXPECT_EQ(numerics::checkpoint_code<numerics::Bf16>(x, s), 0x3A);
  EXPECT_EQ(numerics::checkpoint_code<float>(x, s), 0x39);
  EXPECT_EQ(numerics::checkpoint_code<float>(-0.0F, 1.0F), 0x00);
  EXPECT_EQ(numerics::checkpoint_scale<numerics::Bf16>(0.0F), 0.0078125F);
  EXPECT_EQ(numerics::checkpoint_scale<numerics::Fp16>(0.0F), 0.0009765625F);
  EXPECT_EQ(numerics::checkpoint_scale<numerics::Fp16>(0x1p-24F), 0.0009765625F);  // underflows
  EXPECT_EQ(numerics::checkpoint_scale<float>(0.0F), 0x1p-23F);
}

}  // namespace
}  // namespace rowscale::test
