#include "tests/cuda/support/device_checks.hpp"

#include <cuda_runtime.h>

#include "tests/cuda/support/device.hpp"

namespace rowscale::test {
namespace {

constexpr int kBlocks = 4096;
constexpr int kThreads = 256;

struct Found {
  unsigned long long count;
  unsigned long long first;
};

__device__ void report(Found* found, int64_t at) {
  atomicAdd(&found->count, 1ULL);
  atomicMin(&found->first, static_cast<unsigned long long>(at));
}

// visit(row, column) for every place, a row for a block.
template <class Visit>
__device__ void for_each_place(int64_t rows, int64_t columns, Visit&& visit) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (int64_t column = threadIdx.x; column < columns; column += blockDim.x) visit(row, column);
  }
}

// Neighbours in a row and in a column differ, and no two rows are alike.
__device__ unsigned char byte_of(int64_t row, int64_t column) {
  const auto mixed = static_cast<uint64_t>(row) * 0x9E3779B97F4A7C15ULL +
                     static_cast<uint64_t>(column) * 0xC2B2AE3D27D4EB4FULL;
  return static_cast<unsigned char>((mixed ^ (mixed >> 29)) >> 32);
}

__global__ void other_words(const uint32_t* rows, int64_t count, int64_t words,
                            const uint32_t* expected, Found* found) {
  for_each_place(count, words, [&](int64_t row, int64_t i) {
    if (rows[row * words + i] != expected[i]) report(found, row * words + i);
  });
}

__global__ void fill(unsigned char* matrix, int64_t rows, int64_t columns) {
  for_each_place(rows, columns, [&](int64_t row, int64_t column) {
    matrix[row * columns + column] = byte_of(row, column);
  });
}

__global__ void misplaced(const unsigned char* matrix, int64_t rows, int64_t columns,
                          int64_t row_stride, int64_t column_stride, Found* found) {
  for_each_place(rows, columns, [&](int64_t row, int64_t column) {
    const int64_t at = row * row_stride + column * column_stride;
    if (matrix[at] != byte_of(row, column)) report(found, at);
  });
}

// launch(found), then what it found.
template <class Launch>
Mismatches count(Launch&& launch) {
  const DeviceMemory memory(sizeof(Found));
  auto* found = reinterpret_cast<Found*>(memory.data());
  Found host{0, ~0ULL};
  check_cuda(cudaMemcpy(found, &host, sizeof host, cudaMemcpyHostToDevice), "cudaMemcpy");
  launch(found);
  check_cuda(cudaGetLastError(), "a check on the device");
  check_cuda(cudaMemcpy(&host, found, sizeof host, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return {static_cast<int64_t>(host.count), static_cast<int64_t>(host.first)};
}

}  // namespace

Mismatches find_other_words(const std::byte* rows, int64_t row_count, int64_t row_bytes,
                            const std::byte* expected) {
  return count([&](Found* found) {
    other_words<<<kBlocks, kThreads>>>(reinterpret_cast<const uint32_t*>(rows), row_count,
                                       row_bytes / 4, reinterpret_cast<const uint32_t*>(expected),
                                       found);
  });
}

void fill_by_place(std::byte* matrix, int64_t rows, int64_t columns) {
  fill<<<kBlocks, kThreads>>>(reinterpret_cast<unsigned char*>(matrix), rows, columns);
  check_cuda(cudaDeviceSynchronize(), "fill_by_place");
}

Mismatches find_misplaced(const std::byte* matrix, int64_t rows, int64_t columns,
                          int64_t row_stride, int64_t column_stride) {
  return count([&](Found* found) {
    misplaced<<<kBlocks, kThreads>>>(reinterpret_cast<const unsigned char*>(matrix), rows, columns,
                                     row_stride, column_stride, found);
  });
}

}  // namespace rowscale::test
