#include "gpu/ceiling_kernels.hpp"

namespace rowscale::cli::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kUnit = 16;  // elements

template <CacheHint kHint>
__device__ uint4 load(const uint4* from) {
  return kHint == CacheHint::streaming ? __ldcs(from) : *from;
}

template <CacheHint kHint>
__device__ void store(uint4* to, const uint4& word) {
  if (kHint == CacheHint::streaming) {
    __stcs(to, word);
  } else {
    *to = word;
  }
}

__device__ uint4 operator^(const uint4& a, const uint4& b) {
  return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w);
}

// A block reads kUnits * kThreads units, word by word across its threads, so that each load and
// store of a warp is 512 contiguous bytes; all loads are in flight before the first store.
template <int kRead, int kWritten, int kUnits, CacheHint kHint>
__global__ void __launch_bounds__(kThreads)
    rowscale_copy_ceiling(const uint4* in, uint4* out, int64_t read_words, int64_t written_words) {
  constexpr int kIn = kRead * kUnits;
  constexpr int kOut = kWritten * kUnits;
  const int64_t first_in = static_cast<int64_t>(blockIdx.x) * kIn * kThreads + threadIdx.x;
  const int64_t first_out = static_cast<int64_t>(blockIdx.x) * kOut * kThreads + threadIdx.x;
  uint4 words[kIn];
#pragma unroll
  for (int i = 0; i < kIn; ++i) {
    const int64_t at = first_in + i * kThreads;
    words[i] = at < read_words ? load<kHint>(in + at) : make_uint4(0, 0, 0, 0);
  }
#pragma unroll
  for (int o = 0; o < kOut; ++o) {
    const int64_t at = first_out + o * kThreads;
    uint4 word = words[o * kRead / kWritten];
#pragma unroll
    for (int i = 1; i < kRead / kWritten; ++i) word = word ^ words[o * kRead / kWritten + i];
    if (at < written_words) store<kHint>(out + at, word);
  }
}

template <int kRead, int kWritten, int kUnits, CacheHint kHint>
cudaError_t launch(const void* in, void* out, int64_t units, cudaStream_t stream) {
  const int64_t per_block = int64_t{kThreads} * kUnits;
  const auto blocks = static_cast<unsigned>((units + per_block - 1) / per_block);
  if (blocks == 0) return cudaSuccess;
  rowscale_copy_ceiling<kRead, kWritten, kUnits, kHint><<<blocks, kThreads, 0, stream>>>(
      static_cast<const uint4*>(in), static_cast<uint4*>(out), units * kRead, units * kWritten);
  return cudaGetLastError();
}

template <int kRead, int kWritten, CacheHint kHint>
cudaError_t launch_units(int in_flight, const void* in, void* out, int64_t units,
                         cudaStream_t stream) {
  switch (in_flight) {
    case 1:
      return launch<kRead, kWritten, 1, kHint>(in, out, units, stream);
    case 2:
      return launch<kRead, kWritten, 2, kHint>(in, out, units, stream);
    case 4:
      return launch<kRead, kWritten, 4, kHint>(in, out, units, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

template <int kRead, int kWritten>
cudaError_t launch_hint(const CopyVariant& variant, const void* in, void* out, int64_t units,
                        cudaStream_t stream) {
  return variant.hint == CacheHint::streaming ? launch_units<kRead, kWritten, CacheHint::streaming>(
                                                    variant.units, in, out, units, stream)
                                              : launch_units<kRead, kWritten, CacheHint::none>(
                                                    variant.units, in, out, units, stream);
}

struct FusedWords {
  const uint4* x;
  uint4* residual;
  uint4* row_out;
  uint4* codes;
};

// As the kernel above, with two streams in and up to three out.
template <int kBytes, FusedTraffic kTraffic, int kUnits, CacheHint kHint>
__global__ void __launch_bounds__(kThreads)
    rowscale_fused_ceiling(const FusedWords streams, int64_t units) {
  constexpr bool kResidual = kTraffic != FusedTraffic::row_out;
  constexpr bool kRowOut = kTraffic != FusedTraffic::residual;
  constexpr int kWords = kBytes * kUnits;
  const int64_t count = units * kBytes;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWords * kThreads + threadIdx.x;
  const int64_t first_code = static_cast<int64_t>(blockIdx.x) * kUnits * kThreads + threadIdx.x;
  uint4 words[kWords];
  uint4 residual[kResidual ? kWords : 1];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const int64_t at = first + i * kThreads;
    words[i] = at < count ? load<kHint>(streams.x + at) : make_uint4(0, 0, 0, 0);
    if constexpr (kResidual) {
      residual[i] = at < count ? load<kHint>(streams.residual + at) : make_uint4(0, 0, 0, 0);
    }
  }
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const int64_t at = first + i * kThreads;
    if constexpr (kResidual) {
      words[i] = words[i] ^ residual[i];
      if (at < count) store<kHint>(streams.residual + at, words[i]);
    }
    if constexpr (kRowOut) {
      if (at < count) store<kHint>(streams.row_out + at, words[i]);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int64_t at = first_code + u * kThreads;
    uint4 word = words[u * kBytes];
#pragma unroll
    for (int i = 1; i < kBytes; ++i) word = word ^ words[u * kBytes + i];
    if (at < units) store<kHint>(streams.codes + at, word);
  }
}

template <int kBytes, FusedTraffic kTraffic, int kUnits, CacheHint kHint>
cudaError_t launch_fused(const FusedWords& streams, int64_t units, cudaStream_t stream) {
  const int64_t per_block = int64_t{kThreads} * kUnits;
  const auto blocks = static_cast<unsigned>((units + per_block - 1) / per_block);
  if (blocks == 0) return cudaSuccess;
  rowscale_fused_ceiling<kBytes, kTraffic, kUnits, kHint>
      <<<blocks, kThreads, 0, stream>>>(streams, units);
  return cudaGetLastError();
}

template <int kBytes, FusedTraffic kTraffic, CacheHint kHint>
cudaError_t launch_fused_units(int in_flight, const FusedWords& streams, int64_t units,
                               cudaStream_t stream) {
  switch (in_flight) {
    case 1:
      return launch_fused<kBytes, kTraffic, 1, kHint>(streams, units, stream);
    case 2:
      return launch_fused<kBytes, kTraffic, 2, kHint>(streams, units, stream);
    case 4:
      return launch_fused<kBytes, kTraffic, 4, kHint>(streams, units, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

template <int kBytes, FusedTraffic kTraffic>
cudaError_t launch_fused_hint(const CopyVariant& variant, const FusedWords& streams, int64_t units,
                              cudaStream_t stream) {
  return variant.hint == CacheHint::streaming
             ? launch_fused_units<kBytes, kTraffic, CacheHint::streaming>(variant.units, streams,
                                                                          units, stream)
             : launch_fused_units<kBytes, kTraffic, CacheHint::none>(variant.units, streams, units,
                                                                     stream);
}

template <int kBytes>
cudaError_t launch_fused_traffic(FusedTraffic traffic, const CopyVariant& variant,
                                 const FusedWords& streams, int64_t units, cudaStream_t stream) {
  switch (traffic) {
    case FusedTraffic::row_out:
      return launch_fused_hint<kBytes, FusedTraffic::row_out>(variant, streams, units, stream);
    case FusedTraffic::residual:
      return launch_fused_hint<kBytes, FusedTraffic::residual>(variant, streams, units, stream);
    case FusedTraffic::residual_and_row_out:
      return launch_fused_hint<kBytes, FusedTraffic::residual_and_row_out>(variant, streams, units,
                                                                           stream);
  }
  return cudaErrorInvalidValue;
}

__global__ void __launch_bounds__(kThreads)
    rowscale_read(const uint4* in, int64_t words, uint4* sink) {
  uint4 sum = make_uint4(0, 0, 0, 0);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < words;
       i += step) {
    sum = sum ^ in[i];
  }
  // Never true for the zeros that are read, and unknown to the compiler.
  if ((sum.x | sum.y | sum.z | sum.w) != 0) *sink = sum;
}

}  // namespace

cudaError_t launch_copy(const Traffic& traffic, const CopyVariant& variant, const void* in,
                        void* out, int64_t elements, cudaStream_t stream) {
  const int64_t units = (elements + kUnit - 1) / kUnit;
  switch (16 * traffic.read + traffic.written) {
    case 0x21:
      return launch_hint<2, 1>(variant, in, out, units, stream);
    case 0x41:
      return launch_hint<4, 1>(variant, in, out, units, stream);
    case 0x81:
      return launch_hint<8, 1>(variant, in, out, units, stream);
    case 0x12:
      return launch_hint<1, 2>(variant, in, out, units, stream);
    case 0x14:
      return launch_hint<1, 4>(variant, in, out, units, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t launch_fused_copy(FusedTraffic traffic, int element_bytes, const CopyVariant& variant,
                              const FusedStreams& streams, int64_t elements, cudaStream_t stream) {
  const int64_t units = (elements + kUnit - 1) / kUnit;
  const FusedWords words{static_cast<const uint4*>(streams.x),
                         static_cast<uint4*>(streams.residual),
                         static_cast<uint4*>(streams.row_out), static_cast<uint4*>(streams.codes)};
  switch (element_bytes) {
    case 2:
      return launch_fused_traffic<2>(traffic, variant, words, units, stream);
    case 4:
      return launch_fused_traffic<4>(traffic, variant, words, units, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t launch_read(const void* in, int64_t bytes, void* sink, cudaStream_t stream) {
  constexpr int kBlocks = 1024;
  rowscale_read<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4*>(in),
                                                  bytes / static_cast<int64_t>(sizeof(uint4)),
                                                  static_cast<uint4*>(sink));
  return cudaGetLastError();
}

}  // namespace rowscale::cli::gpu
