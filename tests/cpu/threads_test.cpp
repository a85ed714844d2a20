// The number of threads, of callers and of repeats changes no bit.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cpu/operators.hpp"
#include "cpu/parallel.hpp"
#include "plan/cpu_plan.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"
#include "tests/support/sweep.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

std::vector<Recipe> recipes() {
  return {per_tensor(),
          per_token(),
          per_group(96),
          with(per_group(128), ScaleEncoding::ue8m0_packed),
          with(per_group(64), ScaleEncoding::f32, ScaleLayout::column_major_tma),
          per_group(30000),
          per_block(16, 70),
          with(per_block(7, 20000), Format::e5m2)};
}

Outputs quantize_with(int threads, const TensorView& x, const Recipe& recipe) {
  CallOptions options;
  options.exec.threads = threads;
  return run_quantize(x, recipe, options);
}

// Few very wide rows, many narrow ones, and one: all of them more than one thread's share.
TEST(Threads, AnyNumberGivesTheSameBits) {
  for (const auto& shape :
       {std::vector<int64_t>{1, 400000}, {3, 200000}, {4000, 130}, {2, 300, 600}}) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    const auto bytes = make_data(Data::wide, DType::bf16, count, 1);
    const TensorView x = view_of(bytes.data(), DType::bf16, shape);
    for (const Recipe& recipe : recipes()) {
      const Outputs one = quantize_with(1, x, recipe);
      for (int threads : {0, 2, 3, 8, 64}) {
        ASSERT_TRUE(same_outputs(quantize_with(threads, x, recipe), one))
            << threads << " threads: " << to_string(recipe);
      }
    }
  }
}

// The plan gives the threads something to do: otherwise the test above compares one with one.
TEST(Threads, PlansUseThem) {
  Exec exec;
  exec.threads = 3;
  const plan::CpuPlan wide =
      cpu::make_plan(resolve(per_group(128)), 1, 400000, plan::RowUse::parts, exec);
  EXPECT_EQ(wide.threads, 3);
  EXPECT_GT(wide.items_per_row, 3);
  const plan::CpuPlan many =
      cpu::make_plan(resolve(per_token()), 4000, 130, plan::RowUse::parts, exec);
  EXPECT_EQ(many.threads, 3);
  const plan::CpuPlan small =
      cpu::make_plan(resolve(per_token()), 1, 16, plan::RowUse::parts, exec);
  EXPECT_EQ(small.threads, 1);
}

TEST(Threads, EveryItemIsDoneOnce) {
  for (int threads : {1, 2, 3, 8}) {
    for (int64_t items : {0, 1, 2, 7, 100, 5001}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(items));
      cpu::parallel_for(items, threads, [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
      for (const auto& count : done) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(Threads, WorkersReallyTakePart) {
  if (cpu::available_threads() < 2) GTEST_SKIP() << "this process may use one CPU only";
  std::atomic<int> others{0};
  const std::thread::id caller = std::this_thread::get_id();
  // Items wait until another thread has come; a deadline ends a wait that would never end.
  cpu::parallel_for(64, 2, [&](int64_t) {
    if (std::this_thread::get_id() != caller) ++others;
    for (int i = 0; i < 2000 && others.load() == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_GT(others.load(), 0);
}

TEST(Threads, FiftyRepeats) {
  const auto bytes = make_data(Data::raw, DType::f32, 500 * 700, 3);
  const TensorView x = view_of(bytes.data(), DType::f32, {500, 700});
  for (const Recipe& recipe : {per_tensor(), per_group(100)}) {
    const Outputs first = quantize_with(2, x, recipe);
    for (int repeat = 0; repeat < 50; ++repeat) {
      ASSERT_TRUE(same_outputs(quantize_with(2, x, recipe), first)) << "repeat " << repeat;
    }
  }
}

// The scale of a call does not depend on what an earlier call left in its memory.
TEST(Threads, OldContentsOfOutputsDoNotMatter) {
  std::vector<float> x(7 * 300, 1.0F);
  std::vector<uint8_t> codes(x.size());
  for (float old : {1e6F, NAN, -1.0F}) {
    float scale = old;
    for (float first : {100.0F, 1.0F, 100.0F}) {
      x[0] = first;
      const Status status =
          quantize(view_of(x.data(), DType::f32, {7, 300}), per_tensor(),
                   view_of(codes.data(), DType::e4m3, {7, 300}),
                   TensorView::contiguous(&scale, DType::f32, {1}), on(Target::best, 2));
      ASSERT_TRUE(status.ok());
      EXPECT_EQ(scale, first / 448.0F);
    }
  }
}

TEST(Threads, ManyCallersAtOnce) {
  const auto bytes = make_data(Data::normal, DType::f16, 400 * 600, 9);
  const TensorView x = view_of(bytes.data(), DType::f16, {400, 600});
  const std::vector<Recipe> all = recipes();
  std::vector<Outputs> expected;
  for (const Recipe& recipe : all) expected.push_back(quantize_with(1, x, recipe));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (size_t caller = 0; caller < 12; ++caller) {
    callers.emplace_back([&, caller] {
      for (size_t round = 0; round < (kSlower > 1 ? 4 : 12); ++round) {
        const size_t i = (caller + round) % all.size();
        const auto threads = static_cast<int>(1 + (caller + round) % 3);
        if (!same_outputs(quantize_with(threads, x, all[i]), expected[i])) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

// Threads do not survive a fork; the child starts its own.
TEST(Threads, AfterFork) {
  const auto bytes = make_data(Data::normal, DType::bf16, 300 * 900, 4);
  const TensorView x = view_of(bytes.data(), DType::bf16, {300, 900});
  const Outputs expected = quantize_with(2, x, per_token());  // the workers are there now
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // a child that waits for threads that are not there ends too
    const bool equal = static_cast<bool>(same_outputs(quantize_with(2, x, per_token()), expected));
    _exit(equal ? 0 : 1);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state)) << "signal " << (WIFSIGNALED(state) ? WTERMSIG(state) : 0);
  EXPECT_EQ(WEXITSTATUS(state), 0);
  // And the parent still works.
  EXPECT_TRUE(same_outputs(quantize_with(2, x, per_token()), expected));
}

TEST(Threads, ProducersAndDequantize) {
  const auto bytes = make_data(Data::normal, DType::bf16, 300 * 2000, 5);
  const TensorView x = view_of(bytes.data(), DType::bf16, {300, 2000});
  std::vector<float> weight(2000, 1.25F);
  RmsNorm norm;
  norm.weight = view_of(weight.data(), DType::f32, {2000});
  const auto run = [&](int threads) {
    std::vector<std::vector<std::byte>> results;
    results.push_back(call_into_rows(x, 2000, DType::bf16, [&](const TensorView& y) {
      return rms_norm(x, norm, y, on(Target::best, threads));
    }));
    results.push_back(call_into_rows(x, 1000, DType::bf16, [&](const TensorView& y) {
      return silu_mul(x, y, on(Target::best, threads));
    }));
    const Outputs q = quantize_with(1, x, per_group(128));
    const TensorView codes = view_of(q.codes.data(), DType::e4m3, {300, 2000});
    results.push_back(run_dequantize(codes, spec_of(codes, per_group(128)).view(q.scales.data()),
                                     per_group(128), DType::f32, on(Target::best, threads)));
    return results;
  };
  const auto one = run(1);
  for (int threads : {2, 3, 8}) EXPECT_EQ(run(threads) == one, true) << threads << " threads";
}

}  // namespace
}  // namespace rowscale::test
