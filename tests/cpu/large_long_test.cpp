// One row of 2^31 columns and more. Its codes take 2 GiB; the input is one run, again and again.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/calls.hpp"
#include "tests/support/sparse_memory.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

#if !defined(__SANITIZE_ADDRESS__)
TEST(Large, OneWideRow) {
  constexpr int64_t kRun = 4096;
  constexpr int64_t kRepeats = (int64_t{1} << 19) + 1;
  static_assert(kRun * kRepeats > int64_t{1} << 31);
  auto run = make_data(Data::normal, DType::bf16, kRun, 5);
  const TensorView x = TensorView::strided(run.data(), DType::bf16, {1, kRepeats, kRun}, {0, 0, 1})
                           .as_rows({0}, {1, 2});
  const SparseMemory codes(kRun * kRepeats);
  SKIP_WITHOUT(codes);
  for (int threads : {1, 2}) {
    float scale = 0.0F;
    const Status status = quantize(
        x, per_token(), TensorView::contiguous(codes.data(), DType::e4m3, {1, kRun * kRepeats}),
        TensorView::contiguous(&scale, DType::f32, {1, 1}), on(Target::best, threads));
    ASSERT_TRUE(status.ok()) << status.message();
    const Outputs alone = run_quantize(view_of(run.data(), DType::bf16, {1, kRun}), per_token());
    EXPECT_EQ(scale, values_of(DType::f32, alone.scales)[0]);
    const std::byte* last = codes.data() + kRun * (kRepeats - 1);
    EXPECT_TRUE(same_bytes({last, last + kRun}, alone.codes));
  }
}
#endif

}  // namespace
}  // namespace rowscale::test
