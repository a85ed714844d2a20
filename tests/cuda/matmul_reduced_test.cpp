// The kernels of products on few and small cases: what compute-sanitizer is run over.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "rowscale/matmul.hpp"
#include "tests/cuda/support/matmul_memory.hpp"
#include "tests/support/matmul_cases.hpp"

namespace rowscale::test {
namespace {

class MatmulReduced : public MatmulGpuTest {
 protected:
  // By vectors and by blocks.
  void expect_right(MatmulCase c) {
    EXPECT_TRUE(is_right(c));
    c.options.a = per_group(128);
    c.options.b = per_block(128, 128);
    EXPECT_TRUE(is_right(c));
  }
};

MatmulCase case_of(MatmulBackend backend, int64_t m, int64_t n, int64_t k) {
  MatmulCase c;
  c.m = m;
  c.n = n;
  c.k = k;
  c.gap_a = (16 - k % 16) % 16 + 16;
  c.gap_b = (16 - k % 16) % 16;
  c.gap_out = 3;
  c.bias = DType::bf16;
  c.options.backend = backend;
  return c;
}

TEST_F(MatmulReduced, FewRows) {
  for (int64_t m : {1, 9, 17, 65}) {
    expect_right(case_of(MatmulBackend::small_m, m, 130, 1100));   // k in several parts
    expect_right(case_of(MatmulBackend::small_m, m, 6000, 200));   // in one
    expect_right(case_of(MatmulBackend::small_m, m, 25500, 144));  // tiles of 128
  }
}

TEST_F(MatmulReduced, General) {
  for (int64_t m : {3, 40, 129}) {
    MatmulCase c = case_of(MatmulBackend::general, m, 70, 300);
    expect_right(c);
    c.gap_a = 1;
    c.shift_b = 3;
    expect_right(c);
  }
}

TEST_F(MatmulReduced, Experts) {
  for (MatmulBackend backend : {MatmulBackend::small_m, MatmulBackend::general}) {
    MatmulCase sorted = case_of(backend, 90, 130, 272);
    sorted.bias.reset();
    sorted.offsets = {0, 0, 3, 3, 70, 80};
    expect_right(sorted);
    MatmulCase masked = case_of(backend, 20, 130, 272);
    masked.bias.reset();
    masked.counts = {3, 0, 20, 17};
    expect_right(masked);
  }
}

// What comes after cuBLASLt's product is ours.
TEST_F(MatmulReduced, ScaleEpilogue) {
  for (DType out : {DType::f32, DType::f16, DType::bf16}) {
    MatmulCase c = case_of(MatmulBackend::split, 5, 80, 64);
    c.out = out;
    memory_ = gpu_memory(*stream_);
    MatmulCall call(c, memory_.get());
    if (call.plan().code() == StatusCode::unsupported) GTEST_SKIP() << "cuBLASLt is not here";
    EXPECT_TRUE(is_right(c));
  }
}

}  // namespace
}  // namespace rowscale::test
