// FP8 codes as fp16, as this architecture makes them and by shifts, against numerics: every code in
// every place of a word.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "cuda/matmul/halves.cuh"
#include "numerics/float16.hpp"
#include "numerics/fp.hpp"
#include "numerics/fp8.hpp"
#include "tests/cuda/support/device.hpp"

namespace rowscale::test {
namespace {

using numerics::E4m3;
using numerics::E5m2;

struct Wrong {
  unsigned count;
  uint32_t codes;  // of one that differs
  uint32_t place;
  uint32_t got;
};

// A thread a pair of codes, which stands in the low and in the high half of a word.
template <class F, cuda::HalvesBy kBy>
__global__ void convert_all(Wrong* wrong) {
  const uint32_t pair = blockIdx.x * blockDim.x + threadIdx.x;
  for (uint32_t codes : {pair | (~pair << 16), (~pair & 0xFFFFU) | pair << 16}) {
    const cuda::FourHalves halves = cuda::to_halves<F, kBy>(codes);
    for (uint32_t place = 0; place < 4; ++place) {
      const uint32_t word = place < 2 ? halves.first : halves.second;
      const auto half = static_cast<uint16_t>(word >> (16 * (place % 2)));
      const float got = numerics::to_f32(numerics::Fp16{half});
      const float want = numerics::decode<F>(static_cast<uint8_t>(codes >> (8 * place)));
      const bool is_nan = numerics::is_nan(want);
      if (is_nan ? numerics::is_nan(got) : numerics::to_bits(got) == numerics::to_bits(want)) {
        continue;
      }
      if (atomicAdd(&wrong->count, 1U) != 0) continue;
      wrong->codes = codes;
      wrong->place = place;
      wrong->got = half;
    }
  }
}

class GpuHalves : public GpuTest {
 protected:
  template <class F, cuda::HalvesBy kBy>
  static void expect_right(const char* what) {
    const DeviceMemory memory(sizeof(Wrong));
    auto* wrong = reinterpret_cast<Wrong*>(memory.data());
    check_cuda(cudaMemset(wrong, 0, sizeof(Wrong)), "cudaMemset");
    convert_all<F, kBy><<<256, 256>>>(wrong);
    check_cuda(cudaGetLastError(), "convert_all");
    Wrong found = {};
    check_cuda(cudaMemcpy(&found, wrong, sizeof(found), cudaMemcpyDeviceToHost), "convert_all");
    EXPECT_EQ(found.count, 0U) << what << std::hex << ": codes 0x" << found.codes << ", place "
                               << found.place << ": got the half 0x" << found.got;
  }
};

TEST_F(GpuHalves, AsTheArchitectureMakesThem) {
  expect_right<E4m3, cuda::kHalvesBy>("e4m3");
  expect_right<E5m2, cuda::kHalvesBy>("e5m2");
}

TEST_F(GpuHalves, ByShifts) {
  expect_right<E4m3, cuda::HalvesBy::shifts>("e4m3");
  expect_right<E5m2, cuda::HalvesBy::shifts>("e5m2");
}

}  // namespace
}  // namespace rowscale::test
