// More than 2^31 elements, and as many as 32-bit positions of whole chunks allow, without as much
// memory on the host: all rows of the input are one row (a stride of 0), so that the CPU's answer
// to that row is the answer to every row. The results are compared on the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cuda/operators.hpp"
#include "plan/gpu_plan.hpp"
#include "tests/cuda/support/calls.hpp"
#include "tests/cuda/support/data.hpp"
#include "tests/cuda/support/device_checks.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/recipes.hpp"

namespace rowscale::test {
namespace {

constexpr int64_t kColumns = 65536;
constexpr int64_t kRowsBeyond = 32771;  // of kColumns elements: more than 2^31
constexpr int kPoison = 0xA5;
constexpr int64_t kMostBytesOfATest = int64_t{20} << 30;

// The elements of one row on both sides, `rows` times where there is a device.
struct RepeatedRow {
  const Shared* pool;
  DType dtype;
  int64_t shift = 0;  // bytes from the pool's begin

  [[nodiscard]] TensorView on_cpu() const {
    TensorView view = shape_view(dtype, {1, kColumns});
    view.data = const_cast<std::byte*>(pool->host) + shift;
    return view;
  }
  [[nodiscard]] TensorView on_gpu(int64_t rows) const {
    TensorView view = shape_view(dtype, {rows, kColumns}, {0, 1});
    view.data = const_cast<std::byte*>(pool->device) + shift;
    view.device = kGpu;
    return view;
  }
};

// An output on the device, full of poison.
class Output {
 public:
  explicit Output(int64_t bytes) : memory_(bytes) {
    check_cuda(cudaMemset(memory_.data(), kPoison, static_cast<size_t>(bytes)), "cudaMemset");
    check_cuda(cudaDeviceSynchronize(), "cudaMemset");
  }
  [[nodiscard]] TensorView view(TensorView shape) const {
    shape.data = memory_.data();
    shape.device = kGpu;
    return shape;
  }
  // Rows [begin, end) are this one.
  void expect_rows(const char* what, int64_t begin, int64_t end,
                   const std::vector<std::byte>& row) const {
    const auto row_bytes = static_cast<int64_t>(row.size());
    ASSERT_LE(end * row_bytes, memory_.size()) << what;
    const SharedCopy expected(row);
    const Mismatches found = find_other_words(memory_.data() + begin * row_bytes, end - begin,
                                              row_bytes, expected.shared().device);
    EXPECT_EQ(found.count, 0) << what << ": " << found.count << " words differ, the first in row "
                              << begin + found.first * 4 / row_bytes << " at byte "
                              << found.first * 4 % row_bytes;
  }
  void expect_rows(const char* what, const std::vector<std::byte>& row) const {
    expect_rows(what, 0, memory_.size() / static_cast<int64_t>(row.size()), row);
  }

 private:
  DeviceMemory memory_;
};

std::vector<std::byte> poison_like(const std::vector<std::byte>& row) {
  return std::vector<std::byte>(row.size(), std::byte{kPoison});
}

plan::GpuAccess access_of(const plan::Source& source, const Recipe& recipe, int64_t rows) {
  TensorView codes = shape_view(code_dtype(recipe), {rows, kColumns});
  TensorView scales = spec_of(codes, recipe).view(static_cast<void*>(nullptr));
  codes.device = scales.device = kGpu;
  plan::GpuProblem problem;
  const Status status = cuda::quantize_problem(source, resolve(recipe), codes, scales, &problem);
  EXPECT_TRUE(status.ok()) << status.message();
  return problem.access;
}

// The most rows that whole chunks serve; source_of(rows) is what is quantized.
template <class SourceOf>
int64_t most_rows_of_vectors(const Recipe& recipe, SourceOf&& source_of) {
  int64_t low = 1;
  int64_t high = int64_t{1} << 20;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const bool fits = access_of(source_of(middle), recipe, middle) == plan::GpuAccess::vectors;
    (fits ? low : high) = middle;
  }
  return low;
}

class BeyondInt32Repeated : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    size_t free = 0;
    size_t total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (static_cast<int64_t>(free) < kMostBytesOfATest) {
      GTEST_SKIP() << (kMostBytesOfATest >> 20) << " MB of device memory are needed, "
                   << (free >> 20) << " are free";
    }
    stream_ = std::make_unique<Stream>();
  }

  [[nodiscard]] Exec exec_with(size_t workspace_bytes) {
    workspace_ = DeviceMemory(static_cast<int64_t>(std::max<size_t>(workspace_bytes, 4)));
    Exec exec;
    exec.stream = stream_->get();
    exec.workspace = {workspace_.data(), workspace_bytes};
    return exec;
  }

  // Each row of codes, and of scales, is that of the row alone.
  void expect_quantized(const RepeatedRow& row, const Recipe& recipe, int64_t rows) {
    SCOPED_TRACE(to_string(recipe) + " of " + to_string(row.dtype) + " rows " +
                 std::to_string(rows));
    const Outputs expected = run_quantize(row.on_cpu(), recipe);
    const TensorView shape = shape_view(code_dtype(recipe), {rows, kColumns});
    const ScaleSpec spec = spec_of(shape, recipe);
    const Output codes(rows * kColumns);
    const Output scales(scale_bytes(spec));
    const TensorView x = row.on_gpu(rows);
    const Status status =
        quantize(x, recipe, codes.view(shape), scales.view(spec.view(static_cast<void*>(nullptr))),
                 exec_with(quantize_workspace_bytes(x, recipe)));
    ASSERT_TRUE(status.ok()) << status.message();
    stream_->synchronize();
    codes.expect_rows("codes", expected.codes);
    scales.expect_rows("scales", expected.scales);
  }

  std::unique_ptr<Stream> stream_;  // from SetUp on: where no GPU is there is none
  DeviceMemory workspace_;
};

// Just under and just over what 32-bit positions reach, whatever the number of multiprocessors
// adds.
TEST_F(BeyondInt32Repeated, BorderOfWholeChunks) {
  const RepeatedRow row{&data_pool(PoolKind::finite, DType::bf16), DType::bf16};
  const auto source_of = [&](int64_t rows) {
    plan::Source source;
    source.x = row.on_gpu(rows);
    return source;
  };
  const int64_t most = most_rows_of_vectors(per_tensor(), source_of);
  EXPECT_GT(most * (kColumns / plan::kChunk), INT32_MAX - (int64_t{1} << 22));
  ASSERT_EQ(access_of(source_of(most + 1), per_tensor(), most + 1), plan::GpuAccess::elements);
  expect_quantized(row, per_tensor(), most);
  expect_quantized(row, per_tensor(), most + 1);
  expect_quantized(row, per_group(128), most);
}

// The same from codes: their amax comes from products with a scale.
TEST_F(BeyondInt32Repeated, RequantizeAtTheBorder) {
  const RepeatedRow row{&code_pool(), DType::e4m3};
  const float half = 0.5F;
  std::vector<std::byte> half_bytes(sizeof half);
  std::memcpy(half_bytes.data(), &half, sizeof half);
  const SharedCopy scale(half_bytes);
  const Recipe in = per_tensor();
  const Recipe out = with(per_tensor(), Format::e5m2);
  const TensorView one = shape_view(DType::f32, {1});
  const auto scale_on = [&](Device device, const std::byte* data) {
    TensorView view = one;
    view.data = const_cast<std::byte*>(data);
    view.device = device;
    return view;
  };

  std::vector<std::byte> codes_row(kColumns);
  std::vector<std::byte> scale_row(4);
  const TensorView codes_on_cpu = view_of(codes_row.data(), code_dtype(out), {1, kColumns});
  const Status on_cpu = requantize(row.on_cpu(), scale_on(Device{}, scale.shared().host), in,
                                   codes_on_cpu, scale_on(Device{}, scale_row.data()), out);
  ASSERT_TRUE(on_cpu.ok()) << on_cpu.message();

  const TensorView scales_in = scale_on(kGpu, scale.shared().device);
  const auto source_of = [&](int64_t rows) {
    plan::Source source;
    source.kind = plan::SourceKind::dequantized;
    source.x = row.on_gpu(rows);
    source.scales = scales_in;
    source.recipe = resolve(in);
    return source;
  };
  const int64_t rows = most_rows_of_vectors(out, source_of);
  EXPECT_GT(rows * (kColumns / plan::kChunk), INT32_MAX - (int64_t{1} << 22));
  const Output codes(rows * kColumns);
  const Output scales(4);
  const TensorView from = row.on_gpu(rows);
  const Status status =
      requantize(from, scales_in, in, codes.view(shape_view(code_dtype(out), {rows, kColumns})),
                 scales.view(one), out, exec_with(requantize_workspace_bytes(from, out)));
  ASSERT_TRUE(status.ok()) << status.message();
  stream_->synchronize();
  codes.expect_rows("codes_out", codes_row);
  scales.expect_rows("scales_out", scale_row);
}

// Every dtype, by whole chunks and element by element (an address that no vector has).
TEST_F(BeyondInt32Repeated, Quantize) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Shared& pool = data_pool(PoolKind::finite, dtype);
    expect_quantized({&pool, dtype}, per_group(128), kRowsBeyond);
    expect_quantized({&pool, dtype}, with(per_token(), Format::e5m2), kRowsBeyond);
    expect_quantized({&pool, dtype, element_size(dtype)}, per_block(128, 128), kRowsBeyond);
  }
}

TEST_F(BeyondInt32Repeated, Dequantize) {
  const float scale = 0.375F;
  std::vector<std::byte> scale_bytes(sizeof scale);
  std::memcpy(scale_bytes.data(), &scale, sizeof scale);
  const SharedCopy scales(scale_bytes);
  struct Case {
    DType dtype;
    int64_t shift;  // of the codes
  };
  for (const Case& c : {Case{DType::bf16, 0}, Case{DType::f32, 0}, Case{DType::f16, 1}}) {
    SCOPED_TRACE(std::string("to ") + to_string(c.dtype));
    const RepeatedRow row{&code_pool(), DType::e4m3, c.shift};
    TensorView given = shape_view(DType::f32, {1});
    given.data = const_cast<std::byte*>(scales.shared().host);
    const std::vector<std::byte> expected =
        run_dequantize(row.on_cpu(), given, per_tensor(), c.dtype);
    const Output y(kRowsBeyond * kColumns * element_size(c.dtype));
    given.data = const_cast<std::byte*>(scales.shared().device);
    given.device = kGpu;
    const Status status =
        dequantize(row.on_gpu(kRowsBeyond), given, per_tensor(),
                   y.view(shape_view(c.dtype, {kRowsBeyond, kColumns})), exec_with(0));
    ASSERT_TRUE(status.ok()) << status.message();
    stream_->synchronize();
    y.expect_rows("y", expected);
  }
}

// Rows behind the count keep their bytes, also where they begin beyond 2^31.
TEST_F(BeyondInt32Repeated, Masks) {
  constexpr int64_t kRows = 16387;
  const std::vector<int32_t> counts = {static_cast<int32_t>(kRows), 16384};
  std::vector<std::byte> count_bytes(counts.size() * 4);
  std::memcpy(count_bytes.data(), counts.data(), count_bytes.size());
  const SharedCopy on_device(count_bytes);
  const int64_t there = kRows + counts[1];  // rows, one behind the other
  ASSERT_GT(there * kColumns, int64_t{1} << 31);
  for (int64_t shift : {0, 2}) {  // whole chunks, element by element
    for (const Recipe& recipe : {per_token(), per_group(128)}) {
      SCOPED_TRACE(to_string(recipe) + " shift " + std::to_string(shift));
      const RepeatedRow row{&data_pool(PoolKind::finite, DType::bf16), DType::bf16, shift};
      const Outputs expected = run_quantize(row.on_cpu(), recipe);
      const TensorView shape = shape_view(code_dtype(recipe), {2, kRows, kColumns});
      const ScaleSpec spec = spec_of(shape, recipe);
      const Output codes(2 * kRows * kColumns);
      const Output scales(scale_bytes(spec));
      TensorView x = shape_view(DType::bf16, {2, kRows, kColumns}, {0, 0, 1});
      x.data = row.on_gpu(1).data;
      x.device = kGpu;
      const Status status = quantize(
          x.with_row_counts(reinterpret_cast<const int32_t*>(on_device.shared().device)), recipe,
          codes.view(shape), scales.view(spec.view(static_cast<void*>(nullptr))), exec_with(0));
      ASSERT_TRUE(status.ok()) << status.message();
      stream_->synchronize();
      codes.expect_rows("codes", 0, there, expected.codes);
      codes.expect_rows("codes behind the count", there, 2 * kRows, poison_like(expected.codes));
      scales.expect_rows("scales", 0, there, expected.scales);
      scales.expect_rows("scales behind the count", there, 2 * kRows, poison_like(expected.scales));
    }
  }
}

// More scales than 2^31, from rows to columns and back; each is where its place says.
TEST_F(BeyondInt32Repeated, Relayout) {
  constexpr int64_t kRows = 262147;
  constexpr int64_t kGroups = 8193;
  const Recipe by_rows = with(per_group(1), ScaleEncoding::ue8m0);
  const Recipe by_columns = with(per_group(1), ScaleEncoding::ue8m0, ScaleLayout::column_major);
  TensorView codes = shape_view(DType::e4m3, {kRows, kGroups});
  const ScaleSpec rows_spec = spec_of(codes, by_rows);
  const ScaleSpec columns_spec = spec_of(codes, by_columns);
  codes.device = kGpu;
  ASSERT_GT(scale_bytes(rows_spec), int64_t{1} << 31);
  ASSERT_EQ(columns_spec.strides[0], 1);
  const auto in_shape = rows_spec.view(static_cast<void*>(nullptr));
  const auto out_shape = columns_spec.view(static_cast<void*>(nullptr));

  const Output from(scale_bytes(rows_spec));
  const Output to(scale_bytes(columns_spec));
  const auto* from_bytes = static_cast<std::byte*>(from.view(in_shape).data);
  const auto* to_bytes = static_cast<std::byte*>(to.view(out_shape).data);
  fill_by_place(static_cast<std::byte*>(from.view(in_shape).data), kRows, kGroups);
  Status status = relayout_scales(codes, from.view(in_shape), by_rows, to.view(out_shape),
                                  by_columns, exec_with(0));
  ASSERT_TRUE(status.ok()) << status.message();
  stream_->synchronize();
  const Mismatches in_columns =
      find_misplaced(to_bytes, kRows, kGroups, 1, columns_spec.strides[1]);
  EXPECT_EQ(in_columns.count, 0) << "the first at byte " << in_columns.first;

  check_cuda(
      cudaMemset(from.view(in_shape).data, kPoison, static_cast<size_t>(scale_bytes(rows_spec))),
      "cudaMemset");
  check_cuda(cudaDeviceSynchronize(), "cudaMemset");
  status = relayout_scales(codes, to.view(out_shape), by_columns, from.view(in_shape), by_rows,
                           exec_with(0));
  ASSERT_TRUE(status.ok()) << status.message();
  stream_->synchronize();
  const Mismatches in_rows = find_misplaced(from_bytes, kRows, kGroups, kGroups, 1);
  EXPECT_EQ(in_rows.count, 0) << "the first at byte " << in_rows.first;
}

}  // namespace
}  // namespace rowscale::test
