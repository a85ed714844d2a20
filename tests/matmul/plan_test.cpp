// Plans: what makes them equal, what they say, what they run, and the ones that are kept.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "matmul/cache.hpp"
#include "matmul/problem.hpp"
#include "rowscale/matmul.hpp"
#include "tests/support/matmul_cases.hpp"

namespace rowscale::test {
namespace {

// A product of shapes alone.
MatmulTensors shapes(int64_t m, int64_t n, int64_t k) {
  MatmulTensors t;
  void* none = nullptr;
  t.a = TensorView::contiguous(none, DType::e4m3, {m, k});
  t.b = TensorView::contiguous(none, DType::e4m3, {n, k});
  t.scale_a = TensorView::contiguous(none, DType::f32, {m, 1});
  t.scale_b = TensorView::contiguous(none, DType::f32, {n, 1});
  t.out = TensorView::contiguous(none, DType::bf16, {m, n});
  return t;
}

MatmulPlan plan_of(const MatmulTensors& tensors, const MatmulOptions& options = {}) {
  MatmulPlan plan;
  const Status status = MatmulPlan::make(tensors, options, &plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return plan;
}

TEST(MatmulPlan, OfShapesAlone) {
  const MatmulPlan plan = plan_of(shapes(16, 32, 64));
  EXPECT_EQ(plan.backend(), MatmulBackend::cpu);
  EXPECT_EQ(plan.workspace_bytes(), 0U);
  ASSERT_EQ(plan.verdicts().size(), 1U);
  EXPECT_EQ(plan.verdicts()[0].refusal, "");
  // ... but running needs memory.
  const Status status = plan.run(shapes(16, 32, 64));
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(),
            "a: expected data, got a null pointer for e4m3 [16, 64] strides "
            "[64, 1] on cpu");
}

TEST(MatmulPlan, AsText) {
  MatmulTensors t = shapes(16, 4096, 7168);
  void* none = nullptr;
  t.bias = TensorView::contiguous(none, DType::bf16, {4096});
  EXPECT_EQ(to_string(plan_of(t)),
            "m=16 n=4096 k=7168 e4m3 x e4m3 per_token x per_channel -> bf16, bias bf16 on cpu: "
            "cpu: fp32 in tiles of 96 x 96 x 128, workspace 0 bytes\n"
            "  cpu: taken");
  t.bias = {};
  t.a.strides[0] = 8192;
  product::Problem problem;
  ASSERT_TRUE(product::make_problem(t, {}, &problem).ok());
  EXPECT_EQ(to_string(problem),
            "m=16 n=4096 k=7168 e4m3 x e4m3 per_token x per_channel -> bf16, row stride of a 8192 "
            "on cpu");
  EXPECT_EQ(to_string(MatmulPlan()), "an empty plan");
}

TEST(MatmulPlan, Equality) {
  const MatmulPlan plan = plan_of(shapes(16, 32, 64));
  EXPECT_EQ(plan, plan_of(shapes(16, 32, 64)));
  EXPECT_FALSE(plan == plan_of(shapes(17, 32, 64)));
  EXPECT_FALSE(plan == plan_of(shapes(16, 32, 65)));
  MatmulOptions fast;
  fast.accumulation = Accumulation::fast;
  EXPECT_FALSE(plan == plan_of(shapes(16, 32, 64), fast));
  EXPECT_FALSE(plan == MatmulPlan());
  EXPECT_EQ(MatmulPlan(), MatmulPlan());
  MatmulTensors strided = shapes(16, 32, 64);
  strided.b.strides[0] = 80;
  EXPECT_FALSE(plan == plan_of(strided));
  // A stride that no address uses makes no difference.
  MatmulTensors one_row = shapes(1, 32, 64);
  one_row.a.strides[0] = 80;
  EXPECT_EQ(plan_of(one_row), plan_of(shapes(1, 32, 64)));
}

TEST(MatmulPlan, EmptyPlanDoesNotRun) {
  const Status status = MatmulPlan().run(shapes(1, 1, 1));
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(), "plan: expected one that make() made, got an empty one");
}

TEST(MatmulPlan, RunsOnlyWhatItWasMadeFor) {
  MatmulCase c;
  c.m = 4;
  c.n = 8;
  c.k = 32;
  const std::unique_ptr<MatmulMemory> memory = host_memory();
  MatmulCall call(c, memory.get());
  ASSERT_TRUE(call.plan().ok());
  const MatmulPlan& plan = call.made_plan();

  MatmulTensors fewer = call.tensors();
  fewer.a.shape[0] = fewer.scale_a.shape[0] = fewer.out.shape[0] = 3;
  Status status = plan.run(fewer);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(),
            "tensors: expected those the plan was made for, m=4 n=8 k=32 e4m3 x e4m3 per_token x "
            "per_channel -> bf16 on cpu, got m=3 n=8 k=32 e4m3 x e4m3 per_token x per_channel -> "
            "bf16 on cpu");

  MatmulTensors shifted = call.tensors();
  shifted.a.data = static_cast<std::byte*>(shifted.a.data) + 1;
  status = plan.run(shifted);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(),
            "a: expected rows aligned to 32 bytes, as the plan was made for, got "
            "rows aligned to 1");
}

TEST(MatmulPlan, AForcedBackendOrUnsupported) {
  for (MatmulBackend backend :
       {MatmulBackend::cublaslt, MatmulBackend::split, MatmulBackend::small_m,
        MatmulBackend::general, MatmulBackend::dequantize}) {
    MatmulOptions options;
    options.backend = backend;
    MatmulPlan plan;
    const Status status = MatmulPlan::make(shapes(16, 32, 64), options, &plan);
    EXPECT_EQ(status.code(), StatusCode::unsupported) << to_string(backend);
    EXPECT_NE(status.message().find(std::string(to_string(backend)) + ": "), std::string::npos)
        << status.message();
    EXPECT_EQ(matmul_supported(shapes(16, 32, 64), options).code(), StatusCode::unsupported);
    EXPECT_EQ(matmul_workspace_bytes(shapes(16, 32, 64), options), 0U);
  }
  EXPECT_TRUE(matmul_supported(shapes(16, 32, 64)).ok());
}

TEST(MatmulCache, KeepsEqualPlansAndDropsTheOldest) {
  const auto cached = [](int64_t m, MatmulOptions options = {}) {
    product::Problem problem;
    EXPECT_TRUE(product::make_problem(shapes(m, 32, 64), options, &problem).ok());
    std::shared_ptr<const MatmulPlan::Data> plan;
    EXPECT_TRUE(product::cached_plan(problem, options, &plan).ok());
    return plan;
  };
  const auto first = cached(10'000);
  EXPECT_EQ(first, cached(10'000));
  MatmulOptions fast;
  fast.accumulation = Accumulation::fast;
  EXPECT_NE(first, cached(10'000, fast));
  for (int64_t m = 1; m < product::kCachedPlans; ++m) cached(10'000 + m);
  EXPECT_NE(cached(10'000).get(), nullptr);
  // 256 others since it was last used: gone.
  const auto again = cached(10'000);
  for (int64_t m = 0; m < product::kCachedPlans; ++m) cached(20'000 + m);
  EXPECT_NE(again, cached(10'000));
  // Used between the others it stays.
  const auto kept = cached(10'000);
  for (int64_t m = 0; m < 2 * product::kCachedPlans; ++m) {
    cached(30'000 + m);
    ASSERT_EQ(kept, cached(10'000));
  }
}

TEST(MatmulCache, ServesThreadsAtOnce) {
  MatmulCase c;
  c.m = 3;
  c.n = 40;
  c.k = 50;
  std::vector<std::thread> threads;
  std::vector<int> failures(4);
  for (size_t thread = 0; thread < failures.size(); ++thread) {
    threads.emplace_back([&failures, thread, c]() mutable {
      for (int i = 0; i < 300; ++i) {
        c.m = 1 + i % 7;
        const std::unique_ptr<MatmulMemory> memory = host_memory();
        MatmulCall call(c, memory.get());
        const MatmulTensors& t = call.tensors();
        const bool ok = matmul(t.a, t.b, t.scale_a, t.scale_b, {}, t.out).ok();
        failures[thread] += ok ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<int>(4));
}

}  // namespace
}  // namespace rowscale::test
