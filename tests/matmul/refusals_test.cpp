// What products refuse, and in which words.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "rowscale/matmul.hpp"

namespace rowscale::test {
namespace {

struct Call {
  MatmulTensors t;
  MatmulOptions options;
};

// Memory that is never touched: every call here is refused, or has nothing to do.
std::byte* at(int64_t offset) {
  alignas(256) static std::byte memory[8 * 65536];
  return memory + offset;
}

Call dense() {
  Call call;
  call.t.a = TensorView::contiguous(at(0), DType::e4m3, {4, 64});
  call.t.b = TensorView::contiguous(at(65536), DType::e4m3, {8, 64});
  call.t.scale_a = TensorView::contiguous(at(2 * 65536), DType::f32, {4, 1});
  call.t.scale_b = TensorView::contiguous(at(3 * 65536), DType::f32, {8, 1});
  call.t.bias = TensorView::contiguous(at(4 * 65536), DType::f32, {8});
  call.t.out = TensorView::contiguous(at(5 * 65536), DType::bf16, {4, 8});
  return call;
}

Call sorted() {
  Call call = dense();
  call.t.b = TensorView::contiguous(at(65536), DType::e4m3, {3, 8, 64});
  call.t.scale_b = TensorView::contiguous(at(3 * 65536), DType::f32, {3, 8, 1});
  call.t.bias = {};
  call.t.expert_offsets = TensorView::contiguous(at(6 * 65536), DType::i32, {4});
  return call;
}

Call masked() {
  Call call = sorted();
  call.t.expert_offsets = {};
  call.t.a = TensorView::contiguous(at(0), DType::e4m3, {3, 4, 64});
  call.t.a.row_counts = reinterpret_cast<const int32_t*>(at(6 * 65536));
  call.t.scale_a = TensorView::contiguous(at(2 * 65536), DType::f32, {3, 4, 1});
  call.t.out = TensorView::contiguous(at(5 * 65536), DType::bf16, {3, 4, 8});
  return call;
}

struct Refusal {
  Call (*make)();
  std::function<void(Call&)> change;
  const char* message;
};

TEST(MatmulRefusals, NameTheParameter) {
  const Refusal refusals[] = {
      {dense, [](Call& c) { c.options.a = per_group(128); },
       "options.a, options.b: expected per_tensor or per_token x per_tensor or per_channel, or "
       "per_group(128) x per_block(128,128), got per_group(128) x per_channel"},
      {dense,
       [](Call& c) {
         c.options.a = per_group(64);
         c.options.b = per_block(128, 128);
       },
       "options.a, options.b: expected per_tensor or per_token x per_tensor or per_channel, or "
       "per_group(128) x per_block(128,128), got per_group(64) x per_block(128,128)"},
      {dense, [](Call& c) { c.options.a.format = c.options.b.format = Format::e5m2; },
       "options.a, options.b: expected e4m3 in one of them, got e5m2 x e5m2"},
      {dense, [](Call& c) { c.options.backend = static_cast<MatmulBackend>(7); },
       "options.backend: expected 0 to 6, got 7"},
      {dense,
       [](Call& c) {
         c.options.tuning = Tuning::measured;
         c.options.batch_invariance = BatchInvariance::on;
       },
       "options.tuning: expected off beside batch_invariance on, got measured"},
      {dense, [](Call& c) { c.options.b.layout = ScaleLayout::column_major; },
       "options.b: recipe.layout: expected row_major for per_channel, got column_major"},
      {dense, [](Call& c) { c.t.a.dtype = DType::e5m2; }, "a: expected e4m3, got e5m2"},
      {dense, [](Call& c) { c.t.b.dtype = DType::bf16; }, "b: expected e4m3, got bf16"},
      {dense,
       [](Call& c) {
         c.t.a = TensorView::contiguous(at(0), DType::e4m3, {2, 2, 64});
       },
       "a: expected [m, k], got e4m3 [2, 2, 64] strides [128, 64, 1] on cpu"},
      {dense,
       [](Call& c) {
         c.t.b = TensorView::contiguous(at(0), DType::e4m3, {3, 8, 64});
       },
       "b: expected [n, k] without expert_offsets or row_counts of a, got e4m3 [3, 8, 64] strides "
       "[512, 64, 1] on cpu"},
      {dense, [](Call& c) { c.t.b.shape[1] = 63; },
       "b: expected 64 columns, as a has, got e4m3 [8, 63] strides [64, 1] on cpu"},
      {dense, [](Call& c) { c.t.a.strides[1] = 2; },
       "a: expected a stride of 1 in the last dimension, got strides [64, 2]"},
      {dense, [](Call& c) { c.t.scale_a = TensorView::contiguous(at(0), DType::f32, {1}); },
       "scale_a: expected f32 [4, 1] strides [1, 1], got f32 [1] strides [1] on cpu"},
      {dense, [](Call& c) { c.t.scale_b.dtype = DType::ue8m0; },
       "scale_b: expected f32 [8, 1] strides [1, 1], got ue8m0 [8, 1] strides [1, 1] on cpu"},
      {dense, [](Call& c) { c.t.out.dtype = DType::e4m3; },
       "out: expected f32, f16 or bf16, got e4m3"},
      {dense, [](Call& c) { c.t.out.shape[0] = 5; },
       "out: expected 4 rows, as a has, got bf16 [5, 8] strides [8, 1] on cpu"},
      {dense, [](Call& c) { c.t.out.shape[1] = 7; },
       "out: expected 8 columns, as b has rows, got bf16 [4, 7] strides [8, 1] on cpu"},
      {dense, [](Call& c) { c.t.out.strides[0] = 7; },
       "out: expected a row stride of at least 8, got bf16 [4, 8] strides [7, 1] on cpu"},
      {dense, [](Call& c) { c.t.out.strides[0] = -8; },
       "out: expected a row stride of at least 8, got bf16 [4, 8] strides [-8, 1] on cpu"},
      {dense, [](Call& c) { c.t.out.data = c.t.a.data; },
       "out: expected memory of its own, got memory that overlaps a"},
      {dense, [](Call& c) { c.t.out.data = c.t.bias.data; },
       "out: expected memory of its own, got memory that overlaps bias"},
      {dense, [](Call& c) { c.t.out.data = c.t.scale_b.data; },
       "out: expected memory of its own, got memory that overlaps scale_b"},
      {dense, [](Call& c) { c.t.bias.dtype = DType::i32; },
       "bias: expected f32, f16 or bf16, got i32"},
      {dense, [](Call& c) { c.t.bias.shape[0] = 4; },
       "bias: expected 8 elements, as b has rows, got f32 [4] strides [1] on cpu"},
      {dense, [](Call& c) { c.t.bias.strides[0] = 2; },
       "bias: expected a stride of 1 in the last dimension, got strides [2]"},
      {dense,
       [](Call& c) {
         c.t.scale_a.device = {DeviceType::cuda, 0};
       },
       "scale_a: expected the device of a, got f32 [4, 1] strides [1, 1] on cuda:0"},
      {sorted, [](Call& c) { c.t.bias = dense().t.bias; },
       "bias: expected none with experts, got f32 [8] strides [1] on cpu"},
      {sorted, [](Call& c) { c.t.expert_offsets.shape[0] = 3; },
       "expert_offsets: expected 4 elements, one more than b has experts, got i32 [3] strides [1] "
       "on cpu"},
      {sorted, [](Call& c) { c.t.expert_offsets.dtype = DType::f32; },
       "expert_offsets: expected i32, got f32"},
      {sorted, [](Call& c) { c.t.expert_offsets.strides[0] = 2; },
       "expert_offsets: expected a stride of 1 in the last dimension, got strides [2]"},
      {sorted, [](Call& c) { c.t.out.data = c.t.expert_offsets.data; },
       "out: expected memory of its own, got memory that overlaps expert_offsets"},
      {sorted, [](Call& c) { c.t.a.row_counts = masked().t.a.row_counts; },
       "expert_offsets: expected none beside row_counts of a, got i32 [4] strides [1] on cpu"},
      {sorted, [](Call& c) { c.t.b = dense().t.b; },
       "b: expected [experts, n, k], got e4m3 [8, 64] strides [64, 1] on cpu"},
      {masked, [](Call& c) { c.t.b.shape[0] = 2; },
       "b: expected 3 experts, as a has, got e4m3 [2, 8, 64] strides [512, 64, 1] on cpu"},
      {masked, [](Call& c) { c.t.out.shape[0] = 2; },
       "out: expected 3 experts, as a has, got bf16 [2, 4, 8] strides [32, 8, 1] on cpu"},
      {masked, [](Call& c) { c.t.out.strides[0] = 16; },
       "out: expected elements that share no memory, got shape [3, 4, 8] with strides [16, 8, 1]"},
      {masked, [](Call& c) { c.t.out.data = const_cast<int32_t*>(c.t.a.row_counts); },
       "out: expected memory of its own, got memory that overlaps row_counts"},
  };
  for (const Refusal& refusal : refusals) {
    Call call = refusal.make();
    refusal.change(call);
    MatmulPlan plan;
    const Status status = MatmulPlan::make(call.t, call.options, &plan);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << refusal.message;
    EXPECT_EQ(status.message(), refusal.message);
    EXPECT_EQ(plan, MatmulPlan()) << refusal.message;
  }
}

TEST(MatmulRefusals, TheSameCallsUnchangedAreServed) {
  for (const auto& make : {dense, sorted, masked}) {
    const Call call = make();
    MatmulPlan plan;
    const Status status = MatmulPlan::make(call.t, call.options, &plan);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(MatmulRefusals, OfFunctions) {
  Call c = masked();
  Status status = matmul(c.t.a, c.t.b, c.t.scale_a, c.t.scale_b, {}, c.t.out);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(),
            "a: expected no row_counts but in grouped_matmul, got e4m3 [3, 4, "
            "64] strides [256, 64, 1] on cpu");
  c = dense();
  status = grouped_matmul(c.t.a, c.t.b, c.t.scale_a, c.t.scale_b, {}, c.t.out);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(), "expert_offsets: expected offsets, or row_counts of a, got neither");
  EXPECT_EQ(MatmulPlan::make(c.t, {}, nullptr).message(),
            "plan: expected a place for the result, got null");
  // Memory that is not there, thread counts and targets are the run's.
  MatmulPlan plan;
  ASSERT_TRUE(MatmulPlan::make(c.t, {}, &plan).ok());
  Exec exec;
  exec.threads = -1;
  EXPECT_EQ(plan.run(c.t, exec).message(), "exec.threads: expected 0 or more, got -1");
  exec = {};
  exec.target = static_cast<Target>(9);
  EXPECT_EQ(plan.run(c.t, exec).code(), StatusCode::invalid_argument);
  c.t.scale_b.data = nullptr;
  EXPECT_EQ(plan.run(c.t).message(),
            "scale_b: expected data, got a null pointer for f32 [8, 1] strides [1, 1] on cpu");
}

// Tensors without elements need no memory.
TEST(MatmulRefusals, NothingIsAskedOfEmptyTensors) {
  for (const auto& [m, n, k] :
       std::vector<std::array<int64_t, 3>>{{0, 8, 64}, {4, 0, 64}, {0, 0, 0}, {0, 8, 0}}) {
    Call c = dense();
    const auto view = [](DType dtype, int64_t rows, int64_t columns) {
      return TensorView::contiguous(rows * columns == 0 ? nullptr : at(0), dtype, {rows, columns});
    };
    c.t.a = view(DType::e4m3, m, k);
    c.t.b = view(DType::e4m3, n, k);
    c.t.scale_a = view(DType::f32, m, 1);
    c.t.scale_b = view(DType::f32, n, 1);
    c.t.out = view(DType::bf16, m, n);
    const Status status = matmul(c.t.a, c.t.b, c.t.scale_a, c.t.scale_b, {}, c.t.out);
    EXPECT_TRUE(status.ok()) << m << " " << n << " " << k << ": " << status.message();
  }
}

}  // namespace
}  // namespace rowscale::test
