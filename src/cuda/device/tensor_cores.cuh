// FP8 products by a warpgroup (sm_90a): 64 rows of one operand times kColumns rows of the other,
// both 128 bytes wide in shared memory as the copy engine writes them with a swizzle of 128 bytes.
#pragma once

#include <cstdint>

#include "rowscale/types.hpp"

namespace rowscale::cuda {

struct E4m3Name {
  static constexpr char kName[] = "e4m3";
};
struct E5m2Name {
  static constexpr char kName[] = "e5m2";
};

// Of a tile of rows of 128 bytes that begins at a multiple of 1024: eight rows are 1024 bytes.
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t shared) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kEightRows = uint64_t{1024 >> 4} << 32;
  constexpr uint64_t kUnused = uint64_t{1} << 16;
  return kSwizzle128 | kEightRows | kUnused | ((shared & 0x3FFFFU) >> 4);
}

// 32 values of k further along the rows.
inline constexpr uint64_t kDescriptorStep = 32 >> 4;

__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kPending groups are unfinished. The sums may be read afterwards.
template <int kPending, int kSums>
__device__ __forceinline__ void wait_for_products(float (&sums)[kSums]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

enum class Sums { begun, continued };

// sums (+)= rows * columns^T over 32 values of k. Thread t of the warpgroup holds, of row
// 16 * (t / 32) + t % 32 / 4 + 8 * h and column 8 * j + t % 4 * 2 + c, the sum 4 * j + 2 * h + c.
template <class RowFormat, class ColumnFormat>
__device__ __forceinline__ void multiply(float (&d)[4], uint64_t rows, uint64_t columns,
                                         Sums sums) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %6, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n8k32.f32.%7.%8 {%0, %1, %2, %3}, %4, %5, p, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(rows), "l"(columns), "r"(static_cast<int>(sums)), "C"(RowFormat::kName),
        "C"(ColumnFormat::kName));
}
template <class RowFormat, class ColumnFormat>
__device__ __forceinline__ void multiply(float (&d)[8], uint64_t rows, uint64_t columns,
                                         Sums sums) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %10, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n16k32.f32.%11.%12 {"
      "%0, %1, %2, %3, %4, %5, %6, %7"
      "}, %8, %9, p, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7])
      : "l"(rows), "l"(columns), "r"(static_cast<int>(sums)), "C"(RowFormat::kName),
        "C"(ColumnFormat::kName));
}
template <class RowFormat, class ColumnFormat>
__device__ __forceinline__ void multiply(float (&d)[16], uint64_t rows, uint64_t columns,
                                         Sums sums) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %18, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n32k32.f32.%19.%20 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15"
      "}, %16, %17, p, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15])
      : "l"(rows), "l"(columns), "r"(static_cast<int>(sums)), "C"(RowFormat::kName),
        "C"(ColumnFormat::kName));
}
template <class RowFormat, class ColumnFormat>
__device__ __forceinline__ void multiply(float (&d)[32], uint64_t rows, uint64_t columns,
                                         Sums sums) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %34, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n64k32.f32.%35.%36 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, p, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(rows), "l"(columns), "r"(static_cast<int>(sums)), "C"(RowFormat::kName),
        "C"(ColumnFormat::kName));
}
template <class RowFormat, class ColumnFormat>
__device__ __forceinline__ void multiply(float (&d)[64], uint64_t rows, uint64_t columns,
                                         Sums sums) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %66, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n128k32.f32.%67.%68 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(rows), "l"(columns), "r"(static_cast<int>(sums)), "C"(RowFormat::kName),
        "C"(ColumnFormat::kName));
}

}  // namespace rowscale::cuda
