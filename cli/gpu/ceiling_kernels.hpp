// Kernels that move bytes and compute nothing: what a quantization of the same traffic can reach.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace rowscale::cli::gpu {

// Bytes that are read and written for each element: quantize bf16 is {2, 1}, dequantize to fp32 is
// {1, 4}, a gated activation of fp32 {8, 1}. One of the two is 1, the other 2 or 4, or 8 to read.
struct Traffic {
  int read = 2;
  int written = 1;
};

enum class CacheHint { none, streaming };

// No choice is the best at all sizes: the ceiling is the fastest of all.
struct CopyVariant {
  int units = 1;  // of 16 elements, that a thread has in flight: 1, 2 or 4
  CacheHint hint = CacheHint::none;
};

inline constexpr CopyVariant kCopyVariants[] = {
    {1, CacheHint::none},      {2, CacheHint::none},      {4, CacheHint::none},
    {1, CacheHint::streaming}, {2, CacheHint::streaming}, {4, CacheHint::streaming}};

// in, out: device memory, aligned to 16 bytes, of `elements` elements rounded up to 16. Which input
// word reaches which output word is not defined.
cudaError_t launch_copy(const Traffic& traffic, const CopyVariant& variant, const void* in,
                        void* out, int64_t elements, cudaStream_t stream);

// What a norm that quantizes moves beside its input, which is read, and a byte an element, which is
// written: the row as it was made is written, a residual is read and written in place, or both.
enum class FusedTraffic { row_out, residual, residual_and_row_out };

// Device memory as above; the two that the traffic has not are not touched.
struct FusedStreams {
  const void* x = nullptr;
  void* residual = nullptr;
  void* row_out = nullptr;
  void* codes = nullptr;
};

// element_bytes: of all streams but the codes, 2 or 4.
cudaError_t launch_fused_copy(FusedTraffic traffic, int element_bytes, const CopyVariant& variant,
                              const FusedStreams& streams, int64_t elements, cudaStream_t stream);

// Reads `bytes` (a multiple of 16), so that the L2 cache holds nothing of what was there before,
// and nothing that would have to be written back. `sink`: 16 bytes of device memory.
cudaError_t launch_read(const void* in, int64_t bytes, void* sink, cudaStream_t stream);

}  // namespace rowscale::cli::gpu
