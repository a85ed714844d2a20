// Every way to a product on a GPU, each forced, over the same cases, against fp64. A way may refuse
// a case, with a reason; `best` may refuse none.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "rowscale/matmul.hpp"
#include "tests/cuda/support/matmul_memory.hpp"
#include "tests/support/guarded_buffer.hpp"
#include "tests/support/matmul_cases.hpp"
#include "tests/support/matmul_sweep.hpp"

namespace rowscale::test {
namespace {

constexpr MatmulBackend kBackends[] = {MatmulBackend::best,    MatmulBackend::cublaslt,
                                       MatmulBackend::split,   MatmulBackend::small_m,
                                       MatmulBackend::general, MatmulBackend::dequantize};

// The host makes the data and a sample of the reference.
constexpr MatmulLimits kLimits{int64_t{1} << 38, 64'000'000};

class MatmulBackends : public MatmulGpuTest {
 protected:
  // Each backend on one case's data. Repeats must give the same bytes.
  void run_all(const MatmulCase& c, int repeats = 2) {
    memory_ = gpu_memory(*stream_);
    MatmulCall call(c, memory_.get());
    for (MatmulBackend backend : kBackends) {
      SCOPED_TRACE(to_string(backend));
      const Status planned = call.plan(backend);
      if (!planned.ok()) {
        ASSERT_EQ(planned.code(), StatusCode::unsupported) << planned.message() << "\n" << c;
        ASSERT_NE(backend, MatmulBackend::best) << planned.message() << "\n" << c;
        ASSERT_NE(planned.message().find(std::string(to_string(backend)) + ": "), std::string::npos)
            << planned.message();
        continue;
      }
      ++served_[backend];
      Status status = call.run(exec_);
      ASSERT_TRUE(status.ok()) << status.message() << "\n" << c;
      ASSERT_TRUE(call.check());
      const std::vector<std::byte> first = call.out_bytes();
      for (int repeat = 1; repeat < repeats; ++repeat) {
        status = call.run(exec_);
        ASSERT_TRUE(status.ok()) << status.message() << "\n" << c;
        ASSERT_TRUE(same_bytes(call.out_bytes(), first)) << c << "\n"
                                                         << to_string(call.made_plan());
      }
    }
  }

  // What was served goes into the record; `best` must have served all.
  void record(int cases) {
    for (MatmulBackend backend : kBackends) {
      RecordProperty(to_string(backend), std::to_string(served_[backend]));
    }
    EXPECT_EQ(served_[MatmulBackend::best], cases);
  }

  std::map<MatmulBackend, int> served_;
};

TEST_F(MatmulBackends, PairwiseSample) {
  int run = 0;
  for (const MatmulCase& c : pairwise_matmul_cases()) {
    if (!is_within(c, kLimits)) continue;
    ASSERT_NO_FATAL_FAILURE(run_all(c));
    ++run;
  }
  record(run);
}

TEST_F(MatmulBackends, EveryPairOfRecipes) {
  int run = 0;
  for (const MatmulRecipes& recipes : all_matmul_recipes()) {
    for (MatmulData data : {MatmulData::random, MatmulData::tags}) {
      // With every size a multiple of what libraries ask for, and with none.
      for (int64_t odd : {0, 3}) {
        MatmulCase c;
        c.m = 32 + odd;
        c.n = 256 + odd;
        c.k = 384 + odd;
        c.options.a = recipes.a;
        c.options.b = recipes.b;
        c.data = data;
        c.seed = static_cast<uint64_t>(++run);
        ASSERT_NO_FATAL_FAILURE(run_all(c));
      }
    }
  }
  record(run);
}

TEST_F(MatmulBackends, Experts) {
  const std::vector<MatmulCase> cases = expert_matmul_cases();
  for (const MatmulCase& c : cases) ASSERT_NO_FATAL_FAILURE(run_all(c));
  record(static_cast<int>(cases.size()));
}

TEST_F(MatmulBackends, BugCases) {
  const std::vector<MatmulCase> cases = bug_matmul_cases();
  for (const MatmulCase& c : cases) ASSERT_NO_FATAL_FAILURE(run_all(c));
  record(static_cast<int>(cases.size()));
}

TEST_F(MatmulBackends, NothingToSum) {
  int run = 0;
  for (bool has_bias : {false, true}) {
    for (const MatmulRecipes& recipes : {MatmulRecipes{per_token(), per_channel()},
                                         MatmulRecipes{per_group(128), per_block(128, 128)}}) {
      MatmulCase c;
      c.m = 3;
      c.n = 20;
      c.k = 0;
      c.options.a = recipes.a;
      c.options.b = recipes.b;
      if (has_bias) c.bias = DType::bf16;
      ASSERT_NO_FATAL_FAILURE(run_all(c));
      ++run;
    }
  }
  record(run);
}

TEST_F(MatmulBackends, FiftyRepeatsGiveTheSameBits) {
  for (bool is_block : {false, true}) {
    MatmulCase c;
    c.m = 16;
    c.n = 256;
    c.k = 16384;
    if (is_block) {
      c.options.a = per_group(128);
      c.options.b = per_block(128, 128);
    }
    ASSERT_NO_FATAL_FAILURE(run_all(c, 50));
  }
}

// A row's bits with batch_invariance on: of every m, at every place.
TEST_F(MatmulBackends, ARowDoesNotDependOnTheBatch) {
  for (bool is_block : {false, true}) {
    MatmulCase c;
    c.m = 300;
    c.n = 272;
    c.k = 1024;
    c.out = DType::f32;
    c.options.batch_invariance = BatchInvariance::on;
    if (is_block) {
      c.options.a = per_group(128);
      c.options.b = per_block(128, 128);
    }
    memory_ = gpu_memory(*stream_);
    MatmulCall call(c, memory_.get());
    ASSERT_TRUE(call.plan().ok());
    ASSERT_TRUE(call.run(exec_).ok());
    ASSERT_TRUE(call.check());
    const MatmulTensors& all = call.tensors();
    const int64_t groups = is_block ? c.k / 128 : 1;
    for (int64_t first : {0, 1, 63, 130}) {
      for (int64_t count : {1, 2, 15, 64, 129}) {
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
        Exec exec = exec_;
        if (plan.workspace_bytes() > 0) {
          exec.workspace = {memory_->allocate(static_cast<int64_t>(plan.workspace_bytes())),
                            plan.workspace_bytes()};
        }
        const Status status = plan.run(part, exec);
        ASSERT_TRUE(status.ok()) << status.message();
        std::vector<std::byte> got(static_cast<size_t>(bytes));
        memory_->read(got.data(), out, bytes);
        for (int64_t i = 0; i < count; ++i) {
          const auto begin = got.begin() + i * c.n * 4;
          const std::vector<std::byte> row(begin, begin + c.n * 4);
          ASSERT_TRUE(same_bytes(row, call.out_row(0, first + i)))
              << first << " + " << i << " of " << count << "\n"
              << to_string(plan);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rowscale::test
