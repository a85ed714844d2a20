// That a forced target is the one that runs: the choice is visible in the plan, the tables hold
// different functions, and a call that is watched instruction by instruction enters the functions
// of the forced table and of no other.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cpu/kernels.hpp"
#include "cpu/operators.hpp"
#include "cpu/target.hpp"
#include "plan/cpu_plan.hpp"
#include "rowscale/rowscale.hpp"

namespace rowscale::test {
namespace {

using cpu::Kernels;

// The entry addresses of a table, by slot.
std::map<std::string, uintptr_t> functions_of(const Kernels& k) {
  std::map<std::string, uintptr_t> functions;
  const auto add = [&](const std::string& name, auto* function) {
    functions[name] = reinterpret_cast<uintptr_t>(function);
  };
  add("make_scales", k.make_scales);
  add("make_divisors", k.make_divisors);
  for (int t = 0; t < cpu::kFloatTypes; ++t) {
    const std::string type = std::to_string(t);
    add("absmax" + type, k.absmax[t]);
    add("widen" + type, k.widen[t]);
    add("add" + type, k.add[t]);
    add("sum_squares" + type, k.sum_squares[t]);
    add("norm" + type, k.norm[t]);
    add("gated" + type, k.gated[t]);
    add("relu2" + type, k.relu2[t]);
    add("swiglu" + type, k.swiglu[t]);
    for (int f = 0; f < cpu::kFormats; ++f) {
      add("encode" + type + std::to_string(f), k.encode[f][t]);
      add("decode" + type + std::to_string(f), k.decode[f][t]);
      add("encode_columns" + type + std::to_string(f), k.encode_columns[f][t]);
    }
  }
  return functions;
}

TEST(Forcing, BestIsTheFirstOfTheList) {
  const std::vector<Target> targets = supported_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets.back(), Target::scalar);
  EXPECT_EQ(cpu::resolve_target(Target::best), targets.front());
  EXPECT_EQ(std::count(targets.begin(), targets.end(), Target::best), 0);
  // Fastest first; no target twice.
  EXPECT_TRUE(std::is_sorted(targets.rbegin(), targets.rend()));
  EXPECT_EQ(std::adjacent_find(targets.begin(), targets.end()), targets.end());
}

TEST(Forcing, NamesAreThoseOfTheDocuments) {
  EXPECT_STREQ(to_string(Target::best), "best");
  EXPECT_STREQ(to_string(Target::scalar), "scalar");
  EXPECT_STREQ(to_string(Target::avx2), "avx2");
  EXPECT_STREQ(to_string(Target::avx512), "avx512");
}

TEST(Forcing, PlanNamesTheTarget) {
  for (Target target : supported_targets()) {
    Exec exec;
    exec.target = target;
    const plan::CpuPlan plan =
        cpu::make_plan(resolve(per_token()), 4, 256, plan::RowUse::parts, exec);
    EXPECT_EQ(plan.target, target);
    const std::string expected = std::string("target=") + to_string(target) + " ";
    EXPECT_NE(plan::to_string(plan).find(expected), std::string::npos) << plan::to_string(plan);
  }
}

TEST(Forcing, TablesAreNamedAndDiffer) {
  const std::vector<Target> targets = supported_targets();
  for (size_t a = 0; a < targets.size(); ++a) {
    EXPECT_EQ(cpu::kernels(targets[a]).target, targets[a]);
    for (size_t b = 0; b < a; ++b) {
      EXPECT_NE(&cpu::kernels(targets[a]), &cpu::kernels(targets[b]));
      const auto first = functions_of(cpu::kernels(targets[a]));
      const auto second = functions_of(cpu::kernels(targets[b]));
      for (const auto& [slot, address] : first) {
        EXPECT_NE(address, 0U) << slot;
        EXPECT_NE(address, second.at(slot))
            << slot << " is the same function in " << to_string(targets[a]) << " and "
            << to_string(targets[b]);
      }
    }
  }
}

TEST(Forcing, UnsupportedTargetIsRefusedWithTheList) {
  const std::vector<Target> targets = supported_targets();
  std::vector<Target> missing = {static_cast<Target>(17), static_cast<Target>(-1)};
  for (Target target : {Target::avx2, Target::avx512}) {
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
      missing.push_back(target);
    }
  }
  for (Target target : missing) {
    EXPECT_FALSE(cpu::is_supported(target));
    float x[4] = {1, 2, 3, 4};
    uint8_t codes[4] = {9, 9, 9, 9};
    float scale = 9;
    Exec exec;
    exec.target = target;
    const Status status = quantize(TensorView::contiguous(x, DType::f32, {1, 4}), per_token(),
                                   TensorView::contiguous(codes, DType::e4m3, {1, 4}),
                                   TensorView::contiguous(&scale, DType::f32, {1, 1}), exec);
    EXPECT_EQ(status.code(), target == Target::avx2 || target == Target::avx512
                                 ? StatusCode::unsupported
                                 : StatusCode::invalid_argument);
    EXPECT_NE(status.message().find("exec.target"), std::string::npos) << status.message();
    for (Target there : targets) {
      EXPECT_NE(status.message().find(to_string(there)), std::string::npos) << status.message();
    }
    EXPECT_EQ(codes[0], 9);
    EXPECT_EQ(scale, 9);
  }
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
constexpr bool kCanWatch = true;
#else
constexpr bool kCanWatch = false;  // a sanitizer's instructions take too long one by one
#endif

// Calls of every operator, small enough to be watched: bf16 and e4m3 only.
void call_operators(Target target) {
  Exec exec;
  exec.target = target;
  uint16_t x[2 * 64];
  for (int i = 0; i < 128; ++i) x[i] = static_cast<uint16_t>(0x3F80 + i);
  uint8_t codes[64];
  float scales[64] = {};
  uint16_t y[64];
  const TensorView in = TensorView::contiguous(x, DType::bf16, {1, 64});
  const TensorView code_view = TensorView::contiguous(codes, DType::e4m3, {1, 64});
  const TensorView scale_view = TensorView::contiguous(scales, DType::f32, {1, 1});
  const TensorView out = TensorView::contiguous(y, DType::bf16, {1, 64});
  bool ok = quantize(in, per_token(), code_view, scale_view, exec).ok();
  ok = ok && dequantize(code_view, scale_view, per_token(), out, exec).ok();
  ok = ok && silu_mul(TensorView::contiguous(x, DType::bf16, {1, 128}), out, exec).ok();
  RmsNorm norm;
  norm.weight = TensorView::contiguous(x + 64, DType::bf16, {64});
  ok = ok && rms_norm(in, norm, out, exec).ok();
  _exit(ok ? 0 : 1);
}

// Runs call_operators in a child, one instruction at a time; the addresses of `watched` that its
// program counter had. False where this machine does not let us watch.
[[maybe_unused]] bool watch(Target target, const std::set<uintptr_t>& watched,
                            std::set<uintptr_t>* seen) {
#if defined(__x86_64__)
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(2);
    raise(SIGSTOP);
    call_operators(target);
  }
  int state = 0;
  waitpid(child, &state, 0);
  while (WIFSTOPPED(state)) {
    user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) break;
    if (watched.count(registers.rip) != 0) seen->insert(registers.rip);
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
    waitpid(child, &state, 0);
  }
  if (WIFSTOPPED(state)) {
    kill(child, SIGKILL);
    waitpid(child, &state, 0);
    return false;
  }
  return WIFEXITED(state) && WEXITSTATUS(state) == 0;
#else
  return false;
#endif
}

TEST(Forcing, OnlyTheForcedTargetsKernelsRun) {
  if (!kCanWatch) GTEST_SKIP() << "needs x86-64 and no sanitizer";
  std::map<uintptr_t, Target> owner;
  for (Target target : supported_targets()) {
    for (const auto& [slot, address] : functions_of(cpu::kernels(target))) owner[address] = target;
  }
  std::set<uintptr_t> watched;
  for (const auto& [address, target] : owner) watched.insert(address);

  for (Target target : supported_targets()) {
    std::set<uintptr_t> seen;
    if (!watch(target, watched, &seen)) GTEST_SKIP() << "a child may not be traced here";
    const auto functions = functions_of(cpu::kernels(target));
    const auto bf16 = std::to_string(cpu::index_of(DType::bf16));
    for (const std::string& slot : {"absmax" + bf16, "encode" + bf16 + "0", "decode" + bf16 + "0",
                                    "gated" + bf16, "sum_squares" + bf16, "norm" + bf16}) {
      EXPECT_EQ(seen.count(functions.at(slot)), 1U)
          << slot << " of " << to_string(target) << " was not entered";
    }
    for (uintptr_t address : seen) {
      EXPECT_EQ(owner.at(address), target) << "with " << to_string(target) << " a kernel of "
                                           << to_string(owner.at(address)) << " ran";
    }
  }
}

}  // namespace
}  // namespace rowscale::test
