// One GPU as a benchmark finds it, and its memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "bench_data.hpp"
#include "failure.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::cli::gpu {

// `unsupported` only where the machine has no device, driver or kernel; `output` for memory that
// ran out. Anything else is a `fault`: whoever skips what cannot run here must not skip that.
ExitCode exit_code_of(cudaError_t error);
// Throws Failure where `error` is one.
void check(cudaError_t error, const std::string& what);

struct Gpu {
  std::string name;
  std::string driver;  // "580.159.04"
  int index = 0;
  int multiprocessors = 0;
  int64_t l2_bytes = 0;
  int cuda = 0;          // of the runtime in this program: 13000 is 13.0
  int sm_clock_mhz = 0;  // now; 0: unknown
};

// The current device. Throws Failure(unsupported) where there is none.
Gpu open_gpu();

// The clock changes with the load: read it after some.
void read_clock(Gpu* gpu);

// "NVIDIA H200, 132 multiprocessors, L2 60 MiB, SM clock 1980 MHz, driver 580.159.04, CUDA 13.0"
std::string to_string(const Gpu& gpu);
std::string cuda_version(const Gpu& gpu);

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

// Device memory at a multiple of 256 bytes.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(int64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

  // The host's bytes over and over, as many as fit. Finished on return.
  void tile(const Buffer& host) const;

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Several tensors of one size behind each other, so that work which takes them in turn finds none
// of its bytes in a cache.
class TensorSet {
 public:
  TensorSet(int count, int64_t bytes);  // `bytes` of one
  [[nodiscard]] std::byte* data(int index) const { return buffer_.data() + index * stride_; }
  [[nodiscard]] const DeviceBuffer& buffer() const { return buffer_; }
  [[nodiscard]] int count() const { return count_; }

 private:
  int count_;
  int64_t stride_;
  DeviceBuffer buffer_;
};

}  // namespace rowscale::cli::gpu
