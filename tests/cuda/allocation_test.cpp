// A call that succeeds allocates nothing on the host, as quantize.hpp promises. operator new is
// replaced for the whole program: it counts for each thread by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/cases.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace {

thread_local int64_t allocations = 0;

void* counted(void* memory) {
  ++allocations;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) {
  return counted(std::malloc(std::max<size_t>(bytes, 1)));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(step, std::max(bytes + step - 1, step) / step * step));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace rowscale::test {
namespace {

// call() once, for what is made at first use, and again, counted.
template <class Call>
void expect_no_allocation(const char* name, Call&& call) {
  const Status first = call();
  ASSERT_TRUE(first.ok()) << name << ": " << first.message();
  const int64_t before = allocations;
  const Status second = call();
  const int64_t made = allocations - before;
  EXPECT_TRUE(second.ok()) << name << ": " << second.message();
  EXPECT_EQ(made, 0) << name;
}

TEST(AllocationCount, CountsWhatThisThreadAllocates) {
  const int64_t before = allocations;
  void* const plain = ::operator new(100);
  EXPECT_EQ(allocations - before, 1);
  void* const aligned = ::operator new (100, std::align_val_t{64});
  EXPECT_EQ(allocations - before, 2);
  ::operator delete(plain);
  ::operator delete (aligned, std::align_val_t{64});
  const std::string long_text(1000, 'x');
  EXPECT_GT(allocations - before, 2) << long_text;
}

class Allocations : public GpuTest {};

TEST_F(Allocations, NoneInASuccessfulCall) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kColumns = 256;
  Lane lane(1 << 20);
  const TensorView rows = shape_view(DType::bf16, {kRows, kColumns});
  const TensorView codes_shape = shape_view(DType::e4m3, {kRows, kColumns});
  const Slot x_slot =
      lane.fill("x", rows, data_pool(PoolKind::finite, DType::bf16).host, kRows * kColumns * 2);
  const Slot codes_slot = lane.reserve("codes", codes_shape, kRows * kColumns);
  const Slot y_slot = lane.reserve("y", rows, kRows * kColumns * 2);
  const Slot scales_slot = lane.reserve("scales", {}, 4096);
  const Slot scales_out_slot = lane.reserve("scales_out", {}, 4096);
  TensorView on_gpu = rows;
  on_gpu.device = kGpu;
  const Side gpu = lane.gpu_side({}, quantize_workspace_bytes(on_gpu, per_tensor()));
  lane.upload();
  const auto scales_in = [&](const Slot& slot, const Recipe& recipe) {
    Slot placed = slot;
    const ScaleSpec spec = spec_of(codes_shape, recipe);
    EXPECT_LE(scale_bytes(spec), slot.size);
    placed.view = spec.view(static_cast<void*>(nullptr));
    return gpu.view(placed);
  };
  const TensorView x = gpu.view(x_slot);
  const TensorView codes = gpu.view(codes_slot);
  const TensorView y = gpu.view(y_slot);

  const Recipe group = per_group(128);
  const Recipe token = per_token();
  const Recipe tensor = per_tensor();
  const Recipe block = per_block(128, 128);
  for (const auto& [name, recipe] :
       {std::pair{"quantize per_token", token}, std::pair{"quantize per_tensor", tensor},
        std::pair{"quantize per_block", block}, std::pair{"quantize per_group", group}}) {
    const TensorView scales = scales_in(scales_slot, recipe);
    expect_no_allocation(name, [&] { return quantize(x, recipe, codes, scales, gpu.exec); });
  }
  // Any row serves as weights.
  RmsNorm norm;
  norm.weight = TensorView::contiguous(x.data, DType::bf16, {kColumns}, kGpu);
  const TensorView group_scales = scales_in(scales_slot, group);
  expect_no_allocation("rms_norm", [&] { return rms_norm(x, norm, y, gpu.exec); });
  expect_no_allocation("rms_norm_quantize", [&] {
    return rms_norm_quantize(x, norm, group, codes, group_scales, {}, gpu.exec);
  });
  const TensorView half =
      TensorView::contiguous(codes.data, DType::e4m3, {kRows, kColumns / 2}, kGpu);
  ScaleSpec half_spec;
  ASSERT_TRUE(scale_spec(half, token, &half_spec).ok());
  const TensorView half_scales = half_spec.view(group_scales.data, kGpu);
  expect_no_allocation("silu_mul_quantize", [&] {
    return silu_mul_quantize(x, token, half, half_scales, {}, gpu.exec);
  });
  MlaNorm mla;
  mla.q_weight = TensorView::contiguous(x.data, DType::bf16, {kColumns / 2}, kGpu);
  mla.kv_weight = mla.q_weight;
  MlaOutputs outputs;
  outputs.q_codes = half;
  outputs.q_scales = half_scales;
  outputs.kv = TensorView::contiguous(y.data, DType::bf16, {kRows, kColumns / 2}, kGpu);
  expect_no_allocation("mla_norm_quantize",
                       [&] { return mla_norm_quantize(x, mla, token, token, outputs, gpu.exec); });
  const TensorView quantized = scales_in(scales_slot, group);
  ASSERT_TRUE(quantize(x, group, codes, quantized, gpu.exec).ok());

  // The codes and scales are now those of per_group.
  const TensorView scales = scales_in(scales_slot, group);
  expect_no_allocation("dequantize", [&] { return dequantize(codes, scales, group, y, gpu.exec); });
  const Recipe columns = with(group, ScaleEncoding::f32, ScaleLayout::column_major_tma);
  const TensorView relaid = scales_in(scales_out_slot, columns);
  expect_no_allocation("relayout_scales", [&] {
    return relayout_scales(codes, scales, group, relaid, columns, gpu.exec);
  });
  const TensorView one = scales_in(scales_out_slot, tensor);
  expect_no_allocation(
      "requantize", [&] { return requantize(codes, scales, group, codes, one, tensor, gpu.exec); });
  lane.synchronize();
}

}  // namespace
}  // namespace rowscale::test
