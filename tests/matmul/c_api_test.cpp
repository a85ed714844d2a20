// Products by rowscale.h: the same results and refusals as in C++.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "rowscale/matmul.hpp"
#include "rowscale/rowscale.h"

namespace rowscale::test {
namespace {

// Two experts of [3, 32], 5 rows, all ones: 32 times the scales.
struct Example {
  std::vector<uint8_t> a = std::vector<uint8_t>(5 * 32, 0x38);
  std::vector<uint8_t> b = std::vector<uint8_t>(2 * 3 * 32, 0x38);
  std::vector<float> scale_a = {1, 2, 4, 8, 16};
  std::vector<float> scale_b = {1, 3, 5, 7, 9, 11};
  std::vector<float> bias = {100, 200, 300};
  std::vector<int32_t> offsets = {0, 2, 5};
  std::vector<float> out = std::vector<float>(15, -1.0F);
  rs_tensor views[7];
  rs_matmul_tensors tensors = RS_MATMUL_TENSORS_INIT;

  Example() {
    view(0, a.data(), RS_E4M3, {5, 32});
    view(1, b.data(), RS_E4M3, {3, 32});
    view(2, scale_a.data(), RS_F32, {5, 1});
    view(3, scale_b.data(), RS_F32, {3, 1});
    view(4, bias.data(), RS_F32, {3});
    view(5, out.data(), RS_F32, {5, 3});
    view(6, offsets.data(), RS_I32, {3});
    tensors.a = &views[0];
    tensors.b = &views[1];
    tensors.scale_a = &views[2];
    tensors.scale_b = &views[3];
    tensors.bias = &views[4];
    tensors.out = &views[5];
  }
  Example(const Example&) = delete;
  Example& operator=(const Example&) = delete;

  void view(int i, const void* data, int32_t dtype, const std::vector<int64_t>& shape) {
    views[i] = RS_TENSOR_INIT;
    EXPECT_EQ(rs_tensor_contiguous(&views[i], data, dtype, static_cast<int32_t>(shape.size()),
                                   shape.data()),
              RS_OK);
  }

  void expect_dense(float bias_factor) const {
    for (size_t i = 0; i < 5; ++i) {
      for (size_t j = 0; j < 3; ++j) {
        EXPECT_EQ(out[i * 3 + j], 32.0F * scale_a[i] * scale_b[j] + bias_factor * bias[j]);
      }
    }
  }
};

TEST(MatmulCApi, Matmul) {
  Example e;
  const rs_matmul_options options = RS_MATMUL_OPTIONS_INIT;
  ASSERT_EQ(rs_matmul(&e.views[0], &e.views[1], &e.views[2], &e.views[3], &e.views[4], &e.views[5],
                      &options, nullptr),
            RS_OK)
      << rs_last_error();
  e.expect_dense(1);
  ASSERT_EQ(rs_matmul(&e.views[0], &e.views[1], &e.views[2], &e.views[3], nullptr, &e.views[5],
                      nullptr, nullptr),
            RS_OK)
      << rs_last_error();
  e.expect_dense(0);
  EXPECT_EQ(rs_matmul_supported(&e.tensors, nullptr), RS_OK);
  size_t bytes = 1;
  EXPECT_EQ(rs_matmul_workspace_bytes(&e.tensors, nullptr, &bytes), RS_OK);
  EXPECT_EQ(bytes, 0U);
}

TEST(MatmulCApi, GroupedMatmul) {
  Example e;
  e.view(1, e.b.data(), RS_E4M3, {2, 3, 32});
  e.view(3, e.scale_b.data(), RS_F32, {2, 3, 1});
  ASSERT_EQ(rs_grouped_matmul(&e.views[0], &e.views[1], &e.views[2], &e.views[3], &e.views[6],
                              &e.views[5], nullptr, nullptr),
            RS_OK)
      << rs_last_error();
  for (size_t i = 0; i < 5; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      const size_t expert = i < 2 ? 0 : 1;
      EXPECT_EQ(e.out[i * 3 + j], 32.0F * e.scale_a[i] * e.scale_b[expert * 3 + j]);
    }
  }
}

TEST(MatmulCApi, Plan) {
  Example e;
  rs_matmul_plan* plan = nullptr;
  ASSERT_EQ(rs_matmul_plan_make(&e.tensors, nullptr, &plan), RS_OK) << rs_last_error();
  ASSERT_EQ(rs_matmul_plan_run(plan, &e.tensors, nullptr), RS_OK) << rs_last_error();
  e.expect_dense(1);
  size_t bytes = 1;
  EXPECT_EQ(rs_matmul_plan_workspace_bytes(plan, &bytes), RS_OK);
  EXPECT_EQ(bytes, 0U);
  int32_t backend = -1;
  EXPECT_EQ(rs_matmul_plan_backend(plan, &backend), RS_OK);
  EXPECT_EQ(backend, RS_MATMUL_CPU);
  char text[16];
  size_t needed = 0;
  EXPECT_EQ(rs_matmul_plan_to_string(plan, text, sizeof text, &needed), RS_OK);
  EXPECT_STREQ(text, "m=5 n=3 k=32 e4");
  EXPECT_GT(needed, sizeof text);

  rs_matmul_plan* other = nullptr;
  int32_t equal = -1;
  ASSERT_EQ(rs_matmul_plan_make(&e.tensors, nullptr, &other), RS_OK);
  EXPECT_EQ(rs_matmul_plan_equal(plan, other, &equal), RS_OK);
  EXPECT_EQ(equal, 1);
  rs_matmul_plan_free(other);
  e.tensors.bias = nullptr;
  ASSERT_EQ(rs_matmul_plan_make(&e.tensors, nullptr, &other), RS_OK);
  EXPECT_EQ(rs_matmul_plan_equal(plan, other, &equal), RS_OK);
  EXPECT_EQ(equal, 0);
  rs_matmul_plan_free(other);
  rs_matmul_plan_free(plan);
  rs_matmul_plan_free(nullptr);
}

TEST(MatmulCApi, Refusals) {
  Example e;
  rs_matmul_options options = RS_MATMUL_OPTIONS_INIT;
  options.backend = RS_MATMUL_SPLIT;
  auto* plan = reinterpret_cast<rs_matmul_plan*>(&e);
  EXPECT_EQ(rs_matmul_plan_make(&e.tensors, &options, &plan), RS_UNSUPPORTED);
  EXPECT_EQ(plan, nullptr);
  EXPECT_NE(std::string(rs_last_error()).find("split: "), std::string::npos) << rs_last_error();
  options.backend = 99;
  EXPECT_EQ(rs_matmul_plan_make(&e.tensors, &options, &plan), RS_INVALID_ARGUMENT);
  EXPECT_STREQ(rs_last_error(), "options.backend: expected 0 to 6, got 99");
  EXPECT_EQ(rs_matmul_plan_make(&e.tensors, nullptr, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_matmul_plan_run(nullptr, &e.tensors, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_STREQ(rs_last_error(), "plan: expected one of rs_matmul_plan_make, got NULL");
  size_t bytes = 0;
  EXPECT_EQ(rs_matmul_workspace_bytes(&e.tensors, nullptr, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_EQ(rs_matmul_workspace_bytes(nullptr, nullptr, &bytes), RS_INVALID_ARGUMENT);
  EXPECT_STREQ(rs_last_error(), "tensors: expected a struct, got NULL");
  e.tensors.scale_b = nullptr;
  EXPECT_EQ(rs_matmul_supported(&e.tensors, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_STREQ(rs_last_error(), "tensors.scale_b: expected a struct, got NULL");
  e.tensors.struct_size = 8;
  EXPECT_EQ(rs_matmul_supported(&e.tensors, nullptr), RS_INVALID_ARGUMENT);
  EXPECT_NE(std::string(rs_last_error()).find("tensors.struct_size: expected at least 64, got 8"),
            std::string::npos);
}

}  // namespace
}  // namespace rowscale::test
