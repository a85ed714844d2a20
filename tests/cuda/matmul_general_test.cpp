// The general kernel: what every other backend may refuse, and what it alone promises. The cases
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

MatmulCase general_case(int64_t m, int64_t n, int64_t k) {
  MatmulCase c;
  c.m = m;
  c.n = n;
  c.k = k;
  c.options.backend = MatmulBackend::general;
  return c;
}

MatmulCase with_blocks(MatmulCase c) {
  c.options.a = per_group(128);
  c.options.b = per_block(128, 128);
  return c;
}

class MatmulGeneral : public MatmulGpuTest {};

// Each height of tiles; in front of, at and behind the borders of tiles, pieces and chunks.
TEST_F(MatmulGeneral, BordersOfTiles) {
  uint64_t seed = 1;
  for (int64_t m : {1, 8, 9, 33, 64, 65, 129, 1030}) {
    for (int64_t n : {1, 31, 33, 64, 129, 1100}) {
      for (int64_t k : {1, 15, 16, 17, 127, 129, 513, 640}) {
        MatmulCase c = general_case(m, n, k);
        c.seed = seed++;
        c.out = seed % 3 == 0 ? DType::f32 : seed % 3 == 1 ? DType::f16 : DType::bf16;
        c.data = seed % 2 == 0 ? MatmulData::random : MatmulData::tags;
        if (seed % 4 < 2) c = with_blocks(c);
        // Rows of codes at multiples of 16 bytes in two of three.
        if (seed % 3 != 0) {
          c.gap_a = (16 - k % 16) % 16 + 16;
          c.gap_b = (16 - k % 16) % 16;
        }
        c.gap_out = static_cast<int64_t>(seed % 5);
        c.shift_out = seed % 7 == 0 ? element_size(c.out) : 0;
        ASSERT_TRUE(is_right(c));
      }
    }
  }
}

// Every combination of formats, heights and loads is a kernel of its own.
TEST_F(MatmulGeneral, FormatsOfEveryKernel) {
  struct Formats {
    Format a, b;
  };
  for (const Formats& formats :
       {Formats{Format::e4m3, Format::e4m3}, Formats{Format::e4m3, Format::e5m2},
        Formats{Format::e5m2, Format::e4m3}}) {
    for (int64_t m : {7, 70, 1300}) {
      for (int64_t shift : {0, 1, 2, 3, 13}) {
        for (bool is_block : {false, true}) {
          for (MatmulData data : {MatmulData::random, MatmulData::nans}) {
            MatmulCase c = general_case(m, 832, 304);
            if (is_block) c = with_blocks(c);
            c.options.a.format = formats.a;
            c.options.b.format = formats.b;
            c.shift_a = shift;
            c.shift_b = shift / 2;
            c.data = data;
            ASSERT_TRUE(is_right(c));
          }
        }
      }
    }
  }
}

// The same row in batches of any size, so in tiles of every height and at every place in them.
TEST_F(MatmulGeneral, ARowHasTheSameBitsInEveryTile) {
  for (bool is_block : {false, true}) {
    MatmulCase c = general_case(2700, 832, 1200);
    if (is_block) c = with_blocks(c);
    c.out = DType::f32;
    MatmulCall call(c, memory_.get());
    ASSERT_TRUE(call.plan().ok());
    ASSERT_TRUE(call.run(exec_).ok());
    ASSERT_TRUE(call.check());
    const MatmulTensors& all = call.tensors();
    const int64_t groups = is_block ? (c.k + 127) / 128 : 1;
    std::vector<std::string> texts;
    for (int64_t first : {0, 1, 63, 130, 1300}) {
      for (int64_t count : {1, 2, 8, 17, 64, 129, 1390}) {
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
        texts.push_back(to_string(plan));
        texts.back().erase(0, texts.back().find(" in tiles"));
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
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    EXPECT_EQ(texts.size(), 3U) << "expected a plan of every height";
  }
}

// The search of a tile's expert, of one warp over any number of experts.
TEST_F(MatmulGeneral, AnyNumberOfExperts) {
  for (int32_t experts : {1, 2, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4096}) {
    for (int32_t rows : {1, 17, 200}) {
      for (int64_t taker : {int64_t{-1}, int64_t{0}, int64_t{experts} - 1}) {
        MatmulCase c = general_case(rows, 40, 32);
        c.seed = static_cast<uint64_t>(experts);
        c.offsets.assign(static_cast<size_t>(experts) + 1, 0);
        for (int32_t e = 0; e < experts; ++e) {
          // All to one, or as evenly as may be.
          const int64_t end =
              taker < 0 ? int64_t{rows} * (e + 1) / experts : (e >= taker ? rows : 0);
          c.offsets[static_cast<size_t>(e) + 1] = static_cast<int32_t>(end);
        }
        ASSERT_TRUE(is_right(c));
      }
    }
  }
}

// NaN in every row that does not exist: codes, scales and out.
TEST_F(MatmulGeneral, RowsOfNobody) {
  for (bool is_block : {false, true}) {
    for (int64_t k : {256, 272, 300}) {
      std::vector<MatmulCase> cases;
      for (const std::vector<int32_t>& offsets : {std::vector<int32_t>{0, 0, 7, 7, 8},
                                                  {0, 0, 0, 0, 150},
                                                  {100, 120, 120, 300, 310},
                                                  {-5, 3, -1, 70, 2, 500},
                                                  {0, 0, 0},
                                                  {INT32_MAX, INT32_MIN, INT32_MAX}}) {
        MatmulCase c = general_case(400, 256, k);
        c.offsets = offsets;
        cases.push_back(c);
      }
      for (const std::vector<int32_t>& counts :
           {std::vector<int32_t>{3, 64}, {0, 1, 64, 0}, {INT32_MIN, 65, INT32_MAX, 8, 9}}) {
        MatmulCase c = general_case(64, 256, k);
        c.counts = counts;
        cases.push_back(c);
      }
      for (MatmulCase& c : cases) {
        if (is_block) c = with_blocks(c);
        ASSERT_TRUE(is_right(c));
      }
    }
  }
}

TEST_F(MatmulGeneral, FiftyRepeatsGiveTheSameBits) {
  for (int64_t m : {8, 64, 1300}) {
    const MatmulCase c = general_case(m, 832, 4096);
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

// Small terms beside a large one stay: sums of more than 128 products are added in fp32.
TEST_F(MatmulGeneral, SmallTermsBesideALargeOne) {
  constexpr int64_t kSize = 64;
  constexpr int64_t kLong = 16384;
  std::vector<uint8_t> codes(kSize * kLong, 0x30);                                           // 0.5
  for (int64_t row = 0; row < kSize; ++row) codes[static_cast<size_t>(row * kLong)] = 0x7E;  // 448
  const float one = 1.0F;
  const auto bytes = static_cast<int64_t>(codes.size());
  void* operand = memory_->allocate(bytes);
  memory_->write(operand, codes.data(), bytes);
  void* scale = memory_->allocate(sizeof(one));
  memory_->write(scale, &one, sizeof(one));
  void* out = memory_->allocate(kSize * kSize * 4);
  MatmulTensors t;
  t.a = TensorView::contiguous(operand, DType::e4m3, {kSize, kLong}, kGpu);
  t.b = t.a;
  t.out = TensorView::contiguous(out, DType::f32, {kSize, kSize}, kGpu);
  MatmulOptions options;
  options.a = per_tensor();
  options.b = per_tensor();
  options.backend = MatmulBackend::general;
  ScaleSpec spec;
  ASSERT_TRUE(scale_spec(t.a, options.a, &spec).ok());
  t.scale_a = spec.view(scale, kGpu);
  t.scale_b = t.scale_a;
  for (int64_t m : {int64_t{8}, kSize}) {
    t.a = TensorView::contiguous(operand, DType::e4m3, {m, kLong}, kGpu);
    t.out = TensorView::contiguous(out, DType::f32, {m, kSize}, kGpu);
    MatmulPlan plan;
    const Status made = MatmulPlan::make(t, options, &plan);
    ASSERT_TRUE(made.ok()) << made.message();
    const Status status = plan.run(t, exec_);
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<float> got(static_cast<size_t>(m * kSize));
    memory_->read(got.data(), out, m * kSize * 4);
    for (float value : got) ASSERT_NEAR(value, 204799.75, 1.0);
  }
}

}  // namespace
}  // namespace rowscale::test
