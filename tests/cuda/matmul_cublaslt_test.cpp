// The backends that go through cuBLASLt, each against fp64 on decoded operands: what they serve and
// refuse, where scales lie, captures, threads, rows that do not depend on m.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rowscale/matmul.hpp"
#include "tests/cuda/support/graph.hpp"
#include "tests/cuda/support/matmul_memory.hpp"
#include "tests/support/matmul_cases.hpp"
#include "tests/support/matmul_sweep.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr MatmulBackend kBackends[] = {MatmulBackend::cublaslt, MatmulBackend::split,
                                       MatmulBackend::dequantize};
// matmul_backends_test.cpp has the large ones.
constexpr MatmulLimits kLimits{int64_t{1} << 31, int64_t{1} << 21};

MatmulCase case_of(MatmulBackend backend, const Recipe& a, const Recipe& b, int64_t m, int64_t n,
                   int64_t k) {
  MatmulCase c;
  c.m = m;
  c.n = n;
  c.k = k;
  c.options.backend = backend;
  c.options.a = a;
  c.options.b = b;
  return c;
}

bool is_block(const MatmulCase& c) {
  return c.options.a.granularity == Granularity::per_group;
}

// Rows of FP8 codes as cuBLASLt reads them.
bool has_lt_rows(int64_t columns, int64_t gap, int64_t shift) {
  return (columns + gap) % 16 == 0 && shift % 16 == 0;
}

// By the rules of docs/matmul.md, written anew. Only for shapes that are never too large.
bool is_served(const MatmulCase& c, int architecture) {
  if (c.m == 0 || c.n == 0 || c.k == 0 || !c.offsets.empty() || !c.counts.empty()) return false;
  if (c.options.backend == MatmulBackend::dequantize) return true;
  // One row has no stride.
  const bool rows_fit = has_lt_rows(c.m > 1 ? c.k : 0, c.m > 1 ? c.gap_a : 0, c.shift_a) &&
                        has_lt_rows(c.n > 1 ? c.k : 0, c.n > 1 ? c.gap_b : 0, c.shift_b);
  if (!rows_fit || c.n % 16 != 0 || c.k % 16 != 0 || architecture < 89) return false;
  if (c.options.backend == MatmulBackend::split) return !is_block(c);
  const bool one_a = c.options.a.granularity == Granularity::per_tensor;
  const bool one_b = c.options.b.granularity == Granularity::per_tensor;
  if (one_a != one_b || (!one_a && architecture != 90)) return false;
  if (is_block(c) && (c.n % 128 != 0 || c.m % 4 != 0)) return false;
  const int64_t stride = c.m > 1 ? c.n + c.gap_out : 0;
  const int64_t size = element_size(c.out);
  if (stride * size % 16 != 0 || c.shift_out * size % 16 != 0) return false;
  return !c.bias || *c.bias == (c.out == DType::f16 ? DType::f16 : DType::bf16);
}

int architecture() {
  int major = 0;
  int minor = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "attribute");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "attribute");
  return 10 * major + minor;
}

class MatmulCublasLt : public MatmulGpuTest {
 protected:
  void SetUp() override {
    MatmulGpuTest::SetUp();
    if (IsSkipped()) return;
    architecture_ = architecture();
    MatmulPlan plan;
    MatmulCall call(case_of(MatmulBackend::dequantize, per_token(), per_channel(), 16, 16, 16),
                    memory_.get());
    const Status status = call.plan();
    if (!status.ok()) GTEST_SKIP() << status.message();
  }

  // Right where it is served, refused where not.
  testing::AssertionResult is_right_or_refused(const MatmulCase& c, int* served) {
    memory_ = gpu_memory(*stream_);
    MatmulCall call(c, memory_.get());
    const Status status = call.plan();
    if (!is_served(c, architecture_)) {
      if (status.code() == StatusCode::unsupported) return testing::AssertionSuccess();
      return testing::AssertionFailure() << "expected a refusal, got " << status.message() << "\n"
                                         << c;
    }
    if (!status.ok()) {
      // The library's own holes are no fault of this one; Pairwise prints how many there are.
      const bool is_hole = status.code() == StatusCode::unsupported &&
                           c.options.backend != MatmulBackend::dequantize &&
                           status.message().find("AlgoGetHeuristic") != std::string::npos;
      holes_ += is_hole ? 1 : 0;
      if (is_hole) return testing::AssertionSuccess();
      return testing::AssertionFailure() << status.message() << "\n" << c;
    }
    ++*served;
    if (const Status run = call.run(exec_); !run.ok()) {
      return testing::AssertionFailure() << run.message() << "\n" << c;
    }
    return call.check();
  }

  int architecture_ = 0;
  int holes_ = 0;  // problems within the rules for which cuBLASLt has no algorithm
};

TEST_F(MatmulCublasLt, Pairwise) {
  for (MatmulBackend backend : kBackends) {
    int served = 0;
    int left_out = 0;
    for (MatmulCase c : pairwise_matmul_cases()) {
      if (!is_within(c, kLimits)) {
        ++left_out;
        continue;
      }
      c.options.backend = backend;
      ASSERT_TRUE(is_right_or_refused(c, &served));
    }
    RecordProperty(std::string(to_string(backend)) + "_served", served);
    RecordProperty(std::string(to_string(backend)) + "_left_out", left_out);
    if (backend == MatmulBackend::dequantize || architecture_ == 90) {
      EXPECT_GT(served, 0) << to_string(backend);
    }
  }
  RecordProperty("without_an_algorithm", holes_);
}

// Every encoding and layout, so also every way in which scales are laid out anew; three and four
// blocks of k, with and without pads in block_k4.
TEST_F(MatmulCublasLt, WhereScalesLie) {
  for (MatmulBackend backend : kBackends) {
    int served = 0;
    for (const MatmulRecipes& recipes : all_matmul_recipes()) {
      for (int64_t k : {384, 512}) {
        for (MatmulData data : {MatmulData::tags, MatmulData::random}) {
          MatmulCase c = case_of(backend, recipes.a, recipes.b, 20, 256, k);
          c.out = DType::f32;
          c.data = data;
          ASSERT_TRUE(is_right_or_refused(c, &served));
        }
      }
    }
    if (architecture_ >= 89) {
      EXPECT_GT(served, 0) << to_string(backend);
    }
  }
}

TEST_F(MatmulCublasLt, Rows) {
  const struct {
    Recipe a, b;
  } pairs[] = {{per_tensor(), per_tensor()},
               {per_token(), per_channel()},
               {per_token(), per_tensor()},
               {with(per_group(128), ScaleEncoding::f32, ScaleLayout::column_major),
                with(per_block(128, 128), ScaleEncoding::f32, ScaleLayout::block_k4)}};
  for (MatmulBackend backend : kBackends) {
    int served = 0;
    for (const auto& [a, b] : pairs) {
      for (int64_t m : {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 128, 129, 257, 1000}) {
        for (Accumulation accumulation : {Accumulation::precise, Accumulation::fast}) {
          MatmulCase c = case_of(backend, a, b, m, 640, 896);
          c.options.accumulation = accumulation;
          ASSERT_TRUE(is_right_or_refused(c, &served));
        }
      }
    }
  }
}

TEST_F(MatmulCublasLt, OutputsAndBiases) {
  for (MatmulBackend backend : kBackends) {
    int served = 0;
    for (const Recipe& a : {per_tensor(), per_token()}) {
      const Recipe b = a.granularity == Granularity::per_tensor ? per_tensor() : per_channel();
      for (DType out : {DType::f32, DType::f16, DType::bf16}) {
        for (DType bias : {DType::f32, DType::f16, DType::bf16}) {
          MatmulCase c = case_of(backend, a, b, 33, 272, 256);
          c.out = out;
          c.bias = bias;
          ASSERT_TRUE(is_right_or_refused(c, &served));
          c.gap_out = 3;
          c.shift_out = 1;
          ASSERT_TRUE(is_right_or_refused(c, &served));
        }
      }
    }
  }
}

TEST_F(MatmulCublasLt, FormatsAndNans) {
  for (MatmulBackend backend : kBackends) {
    int served = 0;
    for (const auto& [a, b] :
         {std::pair{Format::e4m3, Format::e5m2}, std::pair{Format::e5m2, Format::e4m3}}) {
      for (MatmulData data : {MatmulData::random, MatmulData::nans}) {
        MatmulCase c = case_of(backend, with(per_token(), a), with(per_channel(), b), 24, 144, 272);
        c.data = data;
        ASSERT_TRUE(is_right_or_refused(c, &served));
      }
    }
  }
}

// dequantize takes every size and every address.
TEST_F(MatmulCublasLt, DequantizeTakesAnything) {
  const Recipe group = per_group(128);
  const Recipe block = per_block(128, 128);
  for (int64_t m : {1, 5, 130}) {
    for (int64_t n : {1, 17, 257}) {
      for (int64_t k : {1, 17, 129, 300}) {
        for (const bool is_blocks : {false, true}) {
          MatmulCase c = case_of(MatmulBackend::dequantize, is_blocks ? group : per_token(),
                                 is_blocks ? block : per_tensor(), m, n, k);
          c.gap_a = 5;
          c.gap_b = 3;
          c.shift_a = 1;
          c.shift_b = 7;
          c.gap_out = 1;
          c.bias = DType::f32;
          ASSERT_TRUE(is_right(c));
        }
      }
    }
  }
}

TEST_F(MatmulCublasLt, PlansSayWhatTheyRun) {
  for (MatmulBackend backend : kBackends) {
    MatmulCall call(case_of(backend, per_tensor(), per_tensor(), 64, 256, 256), memory_.get());
    const Status status = call.plan();
    if (!status.ok() && architecture_ < 89) continue;
    ASSERT_TRUE(status.ok()) << status.message();
    const std::string text = to_string(call.made_plan());
    for (const char* part : {"cuBLASLt ", "libcublasLt", "algorithm ", "split-k "}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    }
  }
  if (architecture_ != 90) GTEST_SKIP() << "block scales need sm_90";
  const auto text_of = [&](ScaleLayout a, ScaleLayout b, int64_t k) {
    MatmulCall call(case_of(MatmulBackend::cublaslt, with(per_group(128), ScaleEncoding::f32, a),
                            with(per_block(128, 128), ScaleEncoding::f32, b), 64, 256, k),
                    memory_.get());
    const Status status = call.plan();
    EXPECT_TRUE(status.ok()) << status.message();
    return to_string(call.made_plan());
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  // Rows of four blocks are those of block_k4; columns of 64 rows have no pads.
  EXPECT_FALSE(has(text_of(ScaleLayout::column_major_tma, ScaleLayout::row_major, 512), "anew"));
  EXPECT_FALSE(has(text_of(ScaleLayout::column_major, ScaleLayout::block_k4, 384), "anew"));
  EXPECT_TRUE(has(text_of(ScaleLayout::row_major, ScaleLayout::block_k4, 384), "scale_a laid out"));
  EXPECT_TRUE(
      has(text_of(ScaleLayout::column_major, ScaleLayout::row_major, 384), "scale_b laid out"));
}

TEST_F(MatmulCublasLt, SameBitsFiftyTimes) {
  for (MatmulBackend backend : kBackends) {
    const MatmulCase c = case_of(backend, per_tensor(), per_tensor(), 48, 512, 4096);
    if (!is_served(c, architecture_)) continue;
    memory_ = gpu_memory(*stream_);
    MatmulCall call(c, memory_.get());
    ASSERT_TRUE(call.plan().ok());
    ASSERT_TRUE(call.run(exec_).ok());
    const std::vector<std::byte> first = call.out_bytes();
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(call.run(exec_).ok());
      ASSERT_EQ(call.out_bytes(), first) << to_string(backend) << " run " << i;
    }
  }
}

// The first run of a plan is one that is captured; row-major scales, so that every launch that a
// backend can make is in the graph.
TEST_F(MatmulCublasLt, CapturedFirstRun) {
  const struct {
    MatmulBackend backend;
    Recipe a, b;
  } ways[] = {{MatmulBackend::cublaslt, per_group(128), per_block(128, 128)},
              {MatmulBackend::split, per_token(), per_channel()},
              {MatmulBackend::dequantize, per_group(128), per_block(128, 128)}};
  for (const auto& [backend, a, b] : ways) {
    const MatmulCase c = case_of(backend, a, b, 52, 384, 640);
    if (!is_served(c, architecture_)) continue;
    memory_ = gpu_memory(*stream_);
    MatmulCall call(c, memory_.get());
    ASSERT_TRUE(call.plan().ok());
    const MatmulPlan& plan = call.made_plan();
    const DeviceMemory workspace(static_cast<int64_t>(plan.workspace_bytes()) + 1);
    const int64_t bytes = c.m * c.n * element_size(c.out);
    const DeviceMemory out(bytes);
    MatmulTensors tensors = call.tensors();
    tensors.out = TensorView::contiguous(out.data(), c.out, {c.m, c.n}, kGpu);
    Exec exec = exec_;
    exec.workspace = {workspace.data(), plan.workspace_bytes()};
    const Graph graph(stream_->get(), [&] { return plan.run(tensors, exec); });
    ASSERT_TRUE(graph.status().ok()) << graph.status().message();
    for (int i = 0; i < 2; ++i) {
      check_cuda(cudaMemsetAsync(out.data(), 0xA5, static_cast<size_t>(bytes), stream_->get()),
                 "cudaMemsetAsync");
      graph.launch(stream_->get());
      std::vector<std::byte> got(static_cast<size_t>(bytes));
      memory_->read(got.data(), out.data(), bytes);
      ASSERT_TRUE(call.run(exec_).ok());
      ASSERT_TRUE(call.check());
      for (int64_t row = 0; row < c.m; ++row) {
        const std::vector<std::byte> want = call.out_row(0, row);
        ASSERT_TRUE(std::equal(want.begin(), want.end(),
                               got.begin() + row * static_cast<int64_t>(want.size())))
            << to_string(backend) << " replay " << i << " row " << row;
      }
    }
  }
}

// One plan, several threads, each with a stream, an output and a workspace of its own.
TEST_F(MatmulCublasLt, ThreadsShareAPlan) {
  constexpr int kThreads = 4;
  for (MatmulBackend backend : kBackends) {
    const MatmulCase c = case_of(backend, per_tensor(), per_tensor(), 40, 256, 512);
    if (!is_served(c, architecture_)) continue;
    memory_ = gpu_memory(*stream_);
    MatmulCall call(c, memory_.get());
    ASSERT_TRUE(call.plan().ok());
    ASSERT_TRUE(call.run(exec_).ok());
    ASSERT_TRUE(call.check());
    std::vector<std::byte> want;
    for (int64_t row = 0; row < c.m; ++row) {
      const std::vector<std::byte> bytes = call.out_row(0, row);
      want.insert(want.end(), bytes.begin(), bytes.end());
    }
    std::vector<std::string> wrong(kThreads);
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const Stream stream;
        const auto memory = gpu_memory(stream);
        const MatmulPlan& plan = call.made_plan();
        MatmulTensors tensors = call.tensors();
        const auto bytes = static_cast<int64_t>(want.size());
        tensors.out = TensorView::contiguous(memory->allocate(bytes), c.out, {c.m, c.n}, kGpu);
        Exec exec;
        exec.stream = stream.get();
        exec.workspace = {memory->allocate(static_cast<int64_t>(plan.workspace_bytes()) + 1),
                          plan.workspace_bytes()};
        for (int i = 0; i < 20 && wrong[static_cast<size_t>(t)].empty(); ++i) {
          const Status status = plan.run(tensors, exec);
          std::vector<std::byte> got(want.size());
          memory->read(got.data(), tensors.out.data, bytes);
          if (!status.ok()) wrong[static_cast<size_t>(t)] = status.message();
          if (got != want) wrong[static_cast<size_t>(t)] += "other bits";
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& text : wrong) EXPECT_EQ(text, "") << to_string(backend);
  }
}

// The first rows of a alone have the bits that they have among more rows.
TEST_F(MatmulCublasLt, RowsDoNotDependOnM) {
  constexpr int64_t kMost = 513;
  for (MatmulBackend backend : kBackends) {
    MatmulCase c = case_of(backend, per_token(), per_channel(), kMost, 768, 2048);
    c.options.batch_invariance = BatchInvariance::on;
    if (!is_served(c, architecture_)) continue;
    memory_ = gpu_memory(*stream_);
    MatmulCall call(c, memory_.get());
    const Status planned = call.plan();
    ASSERT_TRUE(planned.ok()) << planned.message();
    EXPECT_NE(to_string(call.made_plan()).find("split-k 1 "), std::string::npos)
        << to_string(call.made_plan());
    ASSERT_TRUE(call.run(exec_).ok());
    ASSERT_TRUE(call.check());
    for (int64_t m : {1, 2, 7, 16, 64, 128, 129, 256, 400}) {
      MatmulTensors tensors = call.tensors();
      tensors.a.shape[0] = m;
      tensors.scale_a.shape[0] = m;
      const int64_t bytes = m * c.n * element_size(c.out);
      tensors.out = TensorView::contiguous(memory_->allocate(bytes), c.out, {m, c.n}, kGpu);
      MatmulPlan plan;
      const Status made = MatmulPlan::make(tensors, c.options, &plan);
      ASSERT_TRUE(made.ok()) << made.message();
      Exec exec = exec_;
      exec.workspace = {memory_->allocate(static_cast<int64_t>(plan.workspace_bytes()) + 1),
                        plan.workspace_bytes()};
      ASSERT_TRUE(plan.run(tensors, exec).ok());
      std::vector<std::byte> got(static_cast<size_t>(bytes));
      memory_->read(got.data(), tensors.out.data, bytes);
      for (int64_t row = 0; row < m; ++row) {
        const std::vector<std::byte> want = call.out_row(0, row);
        ASSERT_TRUE(std::equal(want.begin(), want.end(),
                               got.begin() + row * static_cast<int64_t>(want.size())))
            << to_string(backend) << " m " << m << " row " << row << "\n"
            << to_string(plan) << "\n"
            << to_string(call.made_plan());
      }
    }
  }
}

TEST_F(MatmulCublasLt, MeasuredPlans) {
  MatmulCase c = case_of(MatmulBackend::best, per_token(), per_channel(), 64, 512, 1024);
  c.options.tuning = Tuning::measured;
  MatmulCall first(c, memory_.get());
  const Status status = first.plan();
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(first.run(exec_).ok());
  EXPECT_TRUE(first.check());
  // Kept: the same way again, whatever a second measurement would have found.
  MatmulCall second(c, memory_.get());
  ASSERT_TRUE(second.plan().ok());
  EXPECT_EQ(first.made_plan(), second.made_plan());
}

// A blocking stream's capture is the default stream's too: refused, and the capture goes on. Beside
// that of a stream on its own measuring is allowed and does not disturb it.
TEST_F(MatmulCublasLt, MeasuringBesideACapture) {
  MatmulCase c = case_of(MatmulBackend::split, per_token(), per_channel(), 32, 384, 512);
  if (!is_served(c, architecture_)) GTEST_SKIP() << "no FP8 product here";
  MatmulCall call(c, memory_.get());
  ASSERT_TRUE(call.plan().ok());  // the library is loaded, its handle made
  MatmulOptions measured = c.options;
  measured.tuning = Tuning::measured;
  MatmulPlan plan;

  cudaStream_t blocking = nullptr;
  check_cuda(cudaStreamCreate(&blocking), "cudaStreamCreate");
  {
    const Capture capture(blocking,
                          [&] { return MatmulPlan::make(call.tensors(), measured, &plan); });
    EXPECT_EQ(capture.status().code(), StatusCode::unsupported);
    EXPECT_NE(capture.status().message().find("options.tuning"), std::string::npos)
        << capture.status().message();
  }
  check_cuda(cudaStreamDestroy(blocking), "cudaStreamDestroy");

  const Capture capture(stream_->get(),
                        [&] { return MatmulPlan::make(call.tensors(), measured, &plan); });
  EXPECT_TRUE(capture.status().ok()) << capture.status().message();
  EXPECT_TRUE(capture.kernels().empty());
}

// Without the library its backends say so, and another one serves the call. In a process of its
// own, in which the library has not been looked for.
TEST(MatmulCublasLtDeathTest, WithoutTheLibrary) {
  if (!reason_without_gpu().empty()) GTEST_SKIP() << reason_without_gpu();
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("ROWSCALE_CUBLASLT", "/nonexistent", 1);
        const Stream stream;
        const auto memory = gpu_memory(stream);
        int wrong = 0;
        for (MatmulBackend backend : kBackends) {
          MatmulCall call(case_of(backend, per_tensor(), per_tensor(), 8, 256, 256), memory.get());
          const Status status = call.plan();
          const bool says_so = status.message().find("/nonexistent") != std::string::npos;
          // Where the device is what refuses, the library is not asked.
          const bool is_refused = status.code() == StatusCode::unsupported;
          if (!is_refused || (!says_so && architecture() >= 89)) ++wrong;
        }
        Exec exec;
        exec.stream = stream.get();
        MatmulCase c = case_of(MatmulBackend::best, per_tensor(), per_tensor(), 8, 256, 256);
        if (!matmul_is_right(c, memory.get(), exec)) ++wrong;
        std::exit(wrong);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rowscale::test
