// The table of kernels without a GPU: what its keys print, and what a plan is told that has none.
#include "cuda/registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace rowscale::cuda {
namespace {

KernelKey rows_key() {
  KernelKey key;
  key.input = DType::bf16;
  key.output = DType::e4m3;
  key.split = plan::GpuSplit::rows;
  key.access = plan::GpuAccess::vectors;
  key.scales = plan::GpuScales::floats;
  key.chunks = 4;
  return key;
}

TEST(Registry, KeysPrintThemselves) {
  EXPECT_EQ(to_string(rows_key()),
            "rowscale::cuda::quantize_rows plain bf16 -> e4m3 access=vectors scales=floats lanes=1 "
            "chunks=4");
}

TEST(Registry, FindsWhatIsThere) {
  const Kernel* kernel = nullptr;
  const Status status = find_kernel(rows_key(), &kernel);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(kernel->key, rows_key());
  EXPECT_NE(kernel->quantize, nullptr);
  EXPECT_EQ(kernel->dequantize, nullptr);
}

// The nearest has the dtypes that were asked for, though others lie beside the key in the table.
TEST(Registry, AMissNamesTheNearest) {
  const std::string asked = "no kernel rowscale::cuda::quantize_rows plain bf16 -> e4m3 ";
  const std::string nearest = "; the nearest is rowscale::cuda::quantize_rows plain bf16 -> e4m3 ";
  struct Miss {
    plan::GpuAccess access;
    plan::GpuScales scales;
    int chunks;
    const char* asked;
    const char* nearest;
  };
  for (const Miss& miss : {
           Miss{plan::GpuAccess::vectors, plan::GpuScales::floats, 9,
                "access=vectors scales=floats lanes=1 chunks=9",
                "access=vectors scales=floats lanes=1 chunks=4"},
           Miss{plan::GpuAccess::elements, plan::GpuScales::floats, 4,
                "access=elements scales=floats lanes=1 chunks=4",
                "access=elements scales=general lanes=1 chunks=4"},
           Miss{plan::GpuAccess::elements, plan::GpuScales::general, 1,
                "access=elements scales=general lanes=1 chunks=1",
                "access=elements scales=general lanes=1 chunks=0"},
       }) {
    KernelKey key = rows_key();
    key.access = miss.access;
    key.scales = miss.scales;
    key.chunks = miss.chunks;
    const Kernel* kernel = nullptr;
    const Status status = find_kernel(key, &kernel);
    EXPECT_EQ(status.code(), StatusCode::unsupported);
    EXPECT_EQ(status.message(), asked + miss.asked + nearest + miss.nearest);
    EXPECT_EQ(kernel, nullptr);
  }
  // Behind the last key of the table.
  KernelKey key;
  key.operation = Operation::dequantize;
  key.source = plan::SourceKind::dequantized;
  key.input = DType::e5m2;
  key.output = DType::bf16;
  key.split = plan::GpuSplit::given;
  key.access = plan::GpuAccess::elements;
  key.chunks = 1000;
  const Kernel* kernel = nullptr;
  const Status status = find_kernel(key, &kernel);
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_NE(status.message().find("the nearest is rowscale::cuda::dequantize_chunks dequantized "
                                  "e5m2 -> bf16 access=elements"),
            std::string::npos)
      << status.message();
}

// `rowscale list-kernels`: a line a kernel, each with the architectures of the build.
TEST(Registry, ListsEveryKernelOnce) {
  std::vector<std::string> lines;
  for (const KernelInfo& kernel : list_kernels()) {
    // In nvcc's words, not in CMake's: sm_90 and compute_90.
    EXPECT_FALSE(kernel.architectures.empty());
    EXPECT_EQ(kernel.architectures.find("real"), std::string::npos) << kernel.architectures;
    EXPECT_EQ(kernel.architectures.find("virtual"), std::string::npos) << kernel.architectures;
    lines.push_back(kernel.name + " " + kernel.plan);
  }
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(std::adjacent_find(lines.begin(), lines.end()), lines.end());
  size_t kernels = 1;  // relayout_scales
  for (const auto& list : kernel_lists()) kernels += list.size();
  EXPECT_EQ(lines.size(), kernels);
}

}  // namespace
}  // namespace rowscale::cuda
