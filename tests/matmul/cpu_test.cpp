// The CPU's products against fp64: shapes, recipes, outputs, views, experts; and their bits against
// each other: targets, threads, batches, repeats.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rowscale/matmul.hpp"
#include "tests/support/guarded_buffer.hpp"
#include "tests/support/matmul_cases.hpp"
#include "tests/support/matmul_sweep.hpp"

namespace rowscale::test {
namespace {

// What two cores do in some seconds; cpu_long_test.cpp has the rest.
constexpr MatmulLimits kQuick{200'000'000, 3'000'000};

testing::AssertionResult is_right(const MatmulCase& c, const Exec& exec = {}) {
  const std::unique_ptr<MatmulMemory> memory = host_memory();
  return matmul_is_right(c, memory.get(), exec);
}

Exec threads(int count) {
  Exec exec;
  exec.threads = count;
  return exec;
}

MatmulCase block_case(int64_t m, int64_t n, int64_t k) {
  MatmulCase c;
  c.m = m;
  c.n = n;
  c.k = k;
  c.options.a = per_group(128);
  c.options.b = per_block(128, 128);
  return c;
}

TEST(MatmulCpu, EveryPairOfRecipes) {
  uint64_t seed = 1;
  for (const MatmulRecipes& recipes : all_matmul_recipes()) {
    for (MatmulData data : {MatmulData::random, MatmulData::tags}) {
      MatmulCase c;
      c.m = 5;
      c.n = 131;
      c.k = 300;
      c.options.a = recipes.a;
      c.options.b = recipes.b;
      c.out = DType::f32;
      c.data = data;
      c.seed = seed++;
      ASSERT_TRUE(is_right(c));
    }
  }
}

TEST(MatmulCpu, PairwiseSample) {
  int run = 0;
  for (const MatmulCase& c : pairwise_matmul_cases()) {
    if (!is_within(c, kQuick)) continue;
    ASSERT_TRUE(is_right(c, threads(0)));
    ++run;
  }
  EXPECT_GT(run, 100);
}

TEST(MatmulCpu, Experts) {
  for (const MatmulCase& c : expert_matmul_cases()) ASSERT_TRUE(is_right(c, threads(2)));
}

// Sums of nothing: the bias, or zeros, even where scales are NaN or infinite.
TEST(MatmulCpu, NothingToSum) {
  for (const MatmulRecipes& recipes : all_matmul_recipes()) {
    for (bool has_bias : {false, true}) {
      MatmulCase c;
      c.m = 3;
      c.n = 20;
      c.k = 0;
      c.options.a = recipes.a;
      c.options.b = recipes.b;
      if (has_bias) c.bias = DType::f32;
      ASSERT_TRUE(is_right(c));
    }
  }
}

// All targets, all numbers of threads, 50 repeats: the same bytes.
TEST(MatmulCpu, SameBitsHoweverItRuns) {
  for (MatmulCase c : {block_case(200, 210, 400), block_case(7, 33, 129), [] {
                         MatmulCase vector;
                         vector.m = 101;
                         vector.n = 97;
                         vector.k = 515;
                         vector.bias = DType::bf16;
                         return vector;
                       }()}) {
    c.out = DType::f32;
    const std::unique_ptr<MatmulMemory> memory = host_memory();
    MatmulCall call(c, memory.get());
    ASSERT_TRUE(call.plan().ok());
    ASSERT_TRUE(call.run().ok());
    ASSERT_TRUE(call.check());
    const std::vector<std::byte> first = call.out_bytes();
    for (int repeat = 0; repeat < 50; ++repeat) {
      ASSERT_TRUE(call.run(threads(repeat % 5)).ok());
      ASSERT_TRUE(same_bytes(call.out_bytes(), first)) << "repeat " << repeat;
    }
    for (Target target : supported_targets()) {
      Exec exec;
      exec.target = target;
      ASSERT_TRUE(call.run(exec).ok());
      ASSERT_TRUE(same_bytes(call.out_bytes(), first)) << to_string(target);
    }
  }
}

// A row of the same codes and scale has the same bits in every batch and at every place.
TEST(MatmulCpu, ARowDoesNotDependOnTheOthers) {
  MatmulCase c = block_case(197, 150, 390);
  c.out = DType::f32;
  const std::unique_ptr<MatmulMemory> memory = host_memory();
  MatmulCall call(c, memory.get());
  ASSERT_TRUE(call.plan().ok());
  ASSERT_TRUE(call.run().ok());
  const MatmulTensors& all = call.tensors();
  for (int64_t first : {0, 1, 11, 95, 96, 130}) {
    for (int64_t count : {1, 2, 12, 13, 66}) {
      MatmulTensors part = all;
      std::vector<float> out(static_cast<size_t>(count * c.n));
      part.a = TensorView::strided(static_cast<std::byte*>(all.a.data) + first * c.k, DType::e4m3,
                                   {count, c.k}, {c.k, 1});
      part.scale_a = TensorView::contiguous(static_cast<float*>(all.scale_a.data) + first * 4,
                                            DType::f32, {count, 4});
      part.out = TensorView::contiguous(out.data(), DType::f32, {count, c.n});
      MatmulPlan plan;
      ASSERT_TRUE(MatmulPlan::make(part, c.options, &plan).ok());
      ASSERT_TRUE(plan.run(part).ok());
      for (int64_t i = 0; i < count; ++i) {
        const auto* begin = reinterpret_cast<const std::byte*>(out.data() + i * c.n);
        const std::vector<std::byte> row(begin, begin + c.n * 4);
        ASSERT_TRUE(same_bytes(row, call.out_row(0, first + i))) << first << " + " << i;
      }
    }
  }
}

// NaN comes out in its one form.
TEST(MatmulCpu, NanIsCanonical) {
  for (DType out : {DType::f32, DType::f16, DType::bf16}) {
    MatmulCase c;
    c.m = 2;
    c.n = 3;
    c.k = 40;
    c.out = out;
    c.data = MatmulData::nans;
    const std::unique_ptr<MatmulMemory> memory = host_memory();
    MatmulCall call(c, memory.get());
    ASSERT_TRUE(call.plan().ok());
    ASSERT_TRUE(call.run().ok());
    ASSERT_TRUE(call.check());
    const std::vector<std::byte> row = call.out_row(0, 1);  // A has a NaN in it
    const auto size = static_cast<size_t>(element_size(out));
    for (size_t i = 0; i < row.size(); ++i) {
      const auto expected = i % size == size - 1 ? std::byte{0x7F} : std::byte{0xFF};
      EXPECT_EQ(row[i], expected) << to_string(out) << ", byte " << i;
    }
  }
}

// docs/numerics.md section 8: what was measured, beside the bound that every case is held to.
TEST(MatmulCpu, ErrorsAreFarBelowTheBound) {
  double largest = 0.0;
  for (int64_t k : {64, 128, 1000, 4096, 14336}) {
    for (bool is_block : {false, true}) {
      MatmulCase c = block_case(16, 64, k);
      if (!is_block) c.options = {};
      c.out = DType::f32;
      const std::unique_ptr<MatmulMemory> memory = host_memory();
      MatmulCall call(c, memory.get());
      ASSERT_TRUE(call.plan().ok());
      ASSERT_TRUE(call.run().ok());
      largest = std::max(largest, call.largest_error());
    }
  }
  RecordProperty("largest_error_in_2^-24", std::to_string(largest));
  EXPECT_LE(largest, 8.0);
}

}  // namespace
}  // namespace rowscale::test
