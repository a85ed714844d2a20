// The linear layer of rowscale.h: a layer of ones, whose results are known.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "rowscale/rowscale.h"

namespace rowscale::test {
namespace {

constexpr int64_t kN = 3;
constexpr int64_t kK = 32;

struct Memory {
  explicit Memory(size_t bytes) : bytes_(bytes + 256) {}
  void* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (256 - address % 256) % 256;
  }
  std::vector<unsigned char> bytes_;
};

rs_tensor view(const void* data, int32_t dtype, const std::vector<int64_t>& shape) {
  rs_tensor tensor = RS_TENSOR_INIT;
  EXPECT_EQ(
      rs_tensor_contiguous(&tensor, data, dtype, static_cast<int32_t>(shape.size()), shape.data()),
      RS_OK);
  return tensor;
}

TEST(LinearCApi, MakesAndRuns) {
  const std::vector<uint8_t> ones(static_cast<size_t>(kN * kK), 0x38);
  const float scale[kN] = {1.0F, 2.0F, 4.0F};
  const rs_tensor codes = view(ones.data(), RS_E4M3, {kN, kK});
  const rs_tensor scales = view(scale, RS_F32, {kN, 1});
  rs_weight_shard shard = RS_WEIGHT_SHARD_INIT;
  shard.codes = &codes;
  shard.scales = &scales;
  const rs_weight_shard* shards[] = {&shard, &shard};
  size_t codes_bytes = 0;
  size_t scales_bytes = 0;
  ASSERT_EQ(rs_packed_weight_bytes(shards, 2, &codes_bytes, &scales_bytes), RS_OK)
      << rs_last_error();
  Memory packed_codes(codes_bytes);
  Memory packed_scales(scales_bytes);
  rs_linear* linear = nullptr;
  ASSERT_EQ(rs_linear_make(shards, 2, packed_codes.data(), packed_scales.data(), nullptr, nullptr,
                           &linear),
            RS_OK)
      << rs_last_error();

  // Rows of 448: codes of 448 with a scale of 1.
  const std::vector<float> row(static_cast<size_t>(2 * kK), 448.0F);
  std::vector<float> result(static_cast<size_t>(2 * 2 * kN));
  const float biases[2 * kN] = {0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F};
  const rs_tensor x = view(row.data(), RS_F32, {2, kK});
  const rs_tensor out = view(result.data(), RS_F32, {2, 2 * kN});
  const rs_tensor bias = view(biases, RS_F32, {2 * kN});
  size_t bytes = 0;
  ASSERT_EQ(rs_linear_prepare(linear, &out, &bias, &bytes), RS_OK) << rs_last_error();
  Memory workspace(bytes);
  rs_exec exec = RS_EXEC_INIT;
  exec.workspace = workspace.data();
  exec.workspace_bytes = bytes;
  ASSERT_EQ(rs_linear_run(linear, &x, &bias, &out, &exec), RS_OK) << rs_last_error();
  for (size_t i = 0; i < result.size(); ++i) {
    EXPECT_EQ(result[i], 448.0F * 32.0F * scale[i % 3] + biases[i % 6]);
  }
  ASSERT_EQ(rs_linear_run_relu2(linear, &x, nullptr, &out, &exec), RS_OK) << rs_last_error();
  EXPECT_EQ(result[1], 448.0F * 448.0F * 32.0F * 2.0F);

  char text[8];
  size_t needed = 0;
  EXPECT_EQ(rs_linear_describe(linear, &out, nullptr, text, sizeof text, &needed), RS_OK);
  EXPECT_STREQ(text, "input: ");
  EXPECT_GT(needed, sizeof text);
  EXPECT_EQ(rs_linear_run(linear, &x, nullptr, &out, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(rs_last_error()).find("exec.workspace: "), 0U) << rs_last_error();
  EXPECT_EQ(rs_linear_run(nullptr, &x, nullptr, &out, &exec), RS_INVALID_ARGUMENT);
  rs_linear_free(linear);
  rs_linear_free(nullptr);
}

TEST(LinearCApi, Refuses) {
  rs_linear* linear = nullptr;
  EXPECT_EQ(rs_linear_make(nullptr, 1, nullptr, nullptr, nullptr, nullptr, &linear),
            RS_INVALID_ARGUMENT);
  EXPECT_STREQ(rs_last_error(), "shards: expected at least one, got NULL");
  EXPECT_EQ(linear, nullptr);
  rs_weight_shard shard = RS_WEIGHT_SHARD_INIT;
  const rs_weight_shard* shards[] = {&shard};
  size_t bytes = 0;
  EXPECT_EQ(rs_packed_weight_bytes(shards, 1, &bytes, &bytes), RS_INVALID_ARGUMENT);
  EXPECT_STREQ(rs_last_error(), "shards[0].codes: expected a struct, got NULL");
}

}  // namespace
}  // namespace rowscale::test
