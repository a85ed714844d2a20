// The kernel for few rows of A: every compiled shape of it, and what it alone promises. The cases
// that all backends have in common are in matmul_backends_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "rowscale/matmul.hpp"
#include "tests/cuda/support/matmul_memory.hpp"
#include "tests/support/guarded_buffer.hpp"
#include "tests/support/matmul_cases.hpp"

namespace rowscale::test {
namespace {

MatmulCase small_case(int64_t m, int64_t n, int64_t k) {
  MatmulCase c;
  c.m = m;
  c.n = n;
  c.k = k;
  c.gap_a = (16 - k % 16) % 16;
  c.gap_b = c.gap_a;
  c.options.backend = MatmulBackend::small_m;
  return c;
}

MatmulCase with_blocks(MatmulCase c) {
  c.options.a = per_group(128);
  c.options.b = per_block(128, 128);
  return c;
}

class MatmulSmallM : public MatmulGpuTest {
 protected:
  // The plan's words for tiles, split and stages.
  std::string shape_of(const MatmulCase& c) {
    memory_ = gpu_memory(*stream_);
    MatmulCall call(c, memory_.get());
    const Status made = call.plan();
    EXPECT_TRUE(made.ok()) << made.message();
    const std::string text = to_string(call.made_plan());
    const size_t begin = text.find("tiles of");
    return text.substr(begin, text.find(',', text.find("k in", begin)) - begin);
  }
};

// Both heights of tiles of weights, every width of tiles of tokens, every split of k, in front of,
// at and behind their borders.
TEST_F(MatmulSmallM, EveryShape) {
  struct Size {
    int64_t n, k;
  };
  std::vector<std::string> shapes;
  uint64_t seed = 1;
  for (const Size& size : {Size{1, 16}, Size{63, 128}, Size{65, 1000}, Size{136, 2048},
                           Size{2112, 1152}, Size{4096, 1536}, Size{6000, 512}, Size{30000, 256}}) {
    for (int64_t m : {1, 7, 8, 9, 16, 17, 32, 33, 64, 65, 200}) {
      MatmulCase c = small_case(m, size.n, size.k);
      c.seed = seed++;
      c.out = seed % 3 == 0 ? DType::f32 : seed % 3 == 1 ? DType::f16 : DType::bf16;
      c.data = seed % 2 == 0 ? MatmulData::random : MatmulData::tags;
      c.gap_out = static_cast<int64_t>(seed % 5);
      c.shift_out = seed % 7 == 0 ? element_size(c.out) : 0;
      if (seed % 5 < 2) c.bias = seed % 2 == 0 ? DType::f32 : DType::bf16;
      for (const MatmulCase& one : {c, with_blocks(c)}) {
        ASSERT_TRUE(is_right(one));
        shapes.push_back(shape_of(one));
      }
    }
  }
  std::sort(shapes.begin(), shapes.end());
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  for (const char* part : {"64 x 8,", "64 x 16,", "64 x 32,", "64 x 64,", "128 x 8,", "128 x 16,",
                           "128 x 32,", "128 x 64,", "k in 1", "k in 2", "k in 4", "k in 8"}) {
    EXPECT_TRUE(std::any_of(shapes.begin(), shapes.end(), [&](const std::string& shape) {
      return shape.find(part) != std::string::npos;
    })) << part;
  }
}

TEST_F(MatmulSmallM, FormatsOfEveryKernel) {
  struct Formats {
    Format a, b;
  };
  for (const Formats& formats :
       {Formats{Format::e4m3, Format::e4m3}, Formats{Format::e4m3, Format::e5m2},
        Formats{Format::e5m2, Format::e4m3}}) {
    for (int64_t n : {320, 26000}) {
      for (int64_t m : {3, 12, 30, 61}) {
        for (MatmulData data : {MatmulData::random, MatmulData::nans}) {
          MatmulCase c = small_case(m, n, 400);
          c.options.a.format = formats.a;
          c.options.b.format = formats.b;
          c.data = data;
          ASSERT_TRUE(is_right(c));
          c.options.a = per_group(128);
          c.options.b = per_block(128, 128);
          c.options.a.format = formats.a;
          c.options.b.format = formats.b;
          ASSERT_TRUE(is_right(c));
        }
      }
    }
  }
}

// Sums are made in an order that n and k fix: a row has the same bits in tiles of every width.
TEST_F(MatmulSmallM, ARowHasTheSameBitsInEveryTile) {
  for (bool is_block : {false, true}) {
    for (int64_t n : {832, 26000}) {
      MatmulCase c = small_case(200, n, 2048);
      if (is_block) c = with_blocks(c);
      c.out = DType::f32;
      memory_ = gpu_memory(*stream_);
      MatmulCall call(c, memory_.get());
      ASSERT_TRUE(call.plan().ok());
      ASSERT_TRUE(call.run(exec_).ok());
      ASSERT_TRUE(call.check());
      const MatmulTensors& all = call.tensors();
      const int64_t groups = is_block ? c.k / 128 : 1;
      for (int64_t first : {0, 1, 63, 100}) {
        for (int64_t count : {1, 9, 17, 40, 90}) {
          MatmulTensors part = all;
          const int64_t bytes = count * c.n * 4;
          void* out = memory_->allocate(bytes);
          part.a = TensorView::contiguous(static_cast<std::byte*>(all.a.data) + first * c.k,
                                          DType::e4m3, {count, c.k}, kGpu);
          part.scale_a =
              TensorView::contiguous(static_cast<float*>(all.scale_a.data) + first * groups,
                                     DType::f32, {count, groups}, kGpu);
          part.out = TensorView::contiguous(out, DType::f32, {count, c.n}, kGpu);
          MatmulPlan plan;
          ASSERT_TRUE(MatmulPlan::make(part, c.options, &plan).ok());
          const Status status = plan.run(part, exec_);
          ASSERT_TRUE(status.ok()) << status.message();
          std::vector<std::byte> got(static_cast<size_t>(bytes));
          memory_->read(got.data(), out, bytes);
          for (int64_t i = 0; i < count; ++i) {
            const auto begin = got.begin() + i * c.n * 4;
            ASSERT_TRUE(same_bytes({begin, begin + c.n * 4}, call.out_row(0, first + i)))
                << first << " + " << i << " of " << count << "\n"
                << to_string(plan);
          }
        }
      }
    }
  }
}

// Experts of any number of rows, by every width of tiles; NaN in every row that does not exist.
TEST_F(MatmulSmallM, RowsOfNobody) {
  for (bool is_block : {false, true}) {
    for (int64_t n : {72, 2304}) {
      std::vector<MatmulCase> cases;
      for (const std::vector<int32_t>& offsets : {std::vector<int32_t>{0, 0, 7, 7, 8},
                                                  {0, 0, 0, 0, 150},
                                                  {100, 120, 120, 300, 310},
                                                  {-5, 3, -1, 70, 2, 500},
                                                  {0, 0, 0},
                                                  {INT32_MAX, INT32_MIN, INT32_MAX}}) {
        for (int64_t m : {12, 40, 400}) {
          MatmulCase c = small_case(m, n, 384);
          c.offsets = offsets;
          cases.push_back(c);
        }
      }
      for (const std::vector<int32_t>& counts :
           {std::vector<int32_t>{3, 64}, {0, 1, 64, 0}, {INT32_MIN, 65, INT32_MAX, 8, 9}}) {
        for (int64_t m : {8, 16, 64}) {
          MatmulCase c = small_case(m, n, 384);
          c.counts = counts;
          cases.push_back(c);
        }
      }
      for (MatmulCase& c : cases) {
        if (is_block) c = with_blocks(c);
        ASSERT_TRUE(is_right(c));
      }
    }
  }
}

TEST_F(MatmulSmallM, ManyExperts) {
  for (int32_t experts : {63, 257, 1025}) {
    MatmulCase c = small_case(512, 64, 128);
    c.offsets.assign(static_cast<size_t>(experts) + 1, 0);
    for (int32_t e = 0; e < experts; ++e) {
      c.offsets[static_cast<size_t>(e) + 1] = static_cast<int32_t>(c.m * (e + 1) / experts);
    }
    ASSERT_TRUE(is_right(c));
    ASSERT_TRUE(is_right(with_blocks(c)));
  }
}

TEST_F(MatmulSmallM, FiftyRepeatsGiveTheSameBits) {
  for (int64_t m : {1, 64}) {
    for (int64_t n : {576, 26000}) {
      for (bool is_block : {false, true}) {
        MatmulCase c = small_case(m, n, 2048);
        if (is_block) c = with_blocks(c);
        memory_ = gpu_memory(*stream_);
        MatmulCall call(c, memory_.get());
        ASSERT_TRUE(call.plan().ok());
        ASSERT_TRUE(call.run(exec_).ok());
        ASSERT_TRUE(call.check());
        const std::vector<std::byte> first = call.out_bytes();
        for (int i = 1; i < 50; ++i) {
          ASSERT_TRUE(call.run(exec_).ok());
          ASSERT_TRUE(same_bytes(call.out_bytes(), first)) << c;
        }
      }
    }
  }
}

// What a slice of the first row of a wider buffer is served by is what all of its rows are.
TEST_F(MatmulSmallM, OneRowOfAWiderBufferIsLikeMany) {
  constexpr int64_t kColumns = 4088;
  constexpr int64_t kStride = 4096;
  for (int64_t stride : {kStride, kStride + 8}) {
    std::vector<MatmulBackend> backends;
    for (int64_t m : {1, 2, 70}) {
      MatmulTensors t;
      const auto none = static_cast<void*>(nullptr);
      t.a = TensorView::strided(none, DType::e4m3, {m, kColumns}, {stride, 1}, kGpu);
      t.b = TensorView::strided(none, DType::e4m3, {256, kColumns}, {kStride, 1}, kGpu);
      t.scale_a = TensorView::contiguous(none, DType::f32, {m, 1}, kGpu);
      t.scale_b = TensorView::contiguous(none, DType::f32, {256, 1}, kGpu);
      t.out = TensorView::contiguous(none, DType::bf16, {m, 256}, kGpu);
      MatmulOptions options;
      options.batch_invariance = BatchInvariance::on;
      MatmulPlan plan;
      const Status made = MatmulPlan::make(t, options, &plan);
      ASSERT_TRUE(made.ok()) << made.message();
      backends.push_back(plan.backend());
    }
    const MatmulBackend expected =
        stride == kStride ? MatmulBackend::small_m : MatmulBackend::general;
    EXPECT_EQ(backends, std::vector<MatmulBackend>(3, expected)) << stride;
  }
}

TEST_F(MatmulSmallM, NoExpertsHaveNoRows) {
  for (int64_t m : {0, 4}) {
    MatmulTensors t;
    const auto none = static_cast<void*>(nullptr);
    t.a = TensorView::contiguous(none, DType::e4m3, {m, 32}, kGpu);
    t.b = TensorView::contiguous(none, DType::e4m3, {0, 16, 32}, kGpu);
    t.scale_a = TensorView::contiguous(none, DType::f32, {m, 1}, kGpu);
    t.scale_b = TensorView::contiguous(none, DType::f32, {0, 16, 1}, kGpu);
    t.out = TensorView::contiguous(none, DType::bf16, {m, 16}, kGpu);
    t.expert_offsets = TensorView::contiguous(none, DType::i32, {1}, kGpu);
    const Status supported = matmul_supported(t);
    EXPECT_TRUE(supported.ok() || supported.code() == StatusCode::unsupported ||
                supported.code() == StatusCode::invalid_argument)
        << supported.message();
  }
}

TEST_F(MatmulSmallM, RefusalsSayWhy) {
  struct Refused {
    MatmulCase call;
    const char* reason;
  };
  MatmulCase odd_rows = small_case(4, 64, 64);
  odd_rows.gap_b = 8;
  MatmulCase shifted = small_case(4, 64, 64);
  shifted.shift_a = 8;
  MatmulCase bytes = with_blocks(small_case(4, 64, 256));
  bytes.options.a.encoding = ScaleEncoding::ue8m0;
  bytes.options.b.encoding = ScaleEncoding::ue8m0;
  for (const Refused& refused : {Refused{odd_rows, "b: rows at positive multiples of 16 bytes"},
                                 Refused{shifted, "a: rows at positive multiples of 16 bytes"},
                                 Refused{bytes, "scale_a: f32 or ue8m0_f32 scales"},
                                 Refused{small_case(4, 64, 0), "k: at least 1"}}) {
    memory_ = gpu_memory(*stream_);
    MatmulCall call(refused.call, memory_.get());
    const Status status = call.plan();
    EXPECT_EQ(status.code(), StatusCode::unsupported);
    EXPECT_NE(status.message().find(refused.reason), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace rowscale::test
