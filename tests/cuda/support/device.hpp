// CUDA memory and streams as owned values. Setting a test up throws where the runtime refuses; the
// calls under test report by Status.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "rowscale/tensor.hpp"

namespace rowscale::test {

inline constexpr Device kGpu{DeviceType::cuda, 0};

// Throws std::runtime_error with the error's name and what was attempted.
void check_cuda(cudaError_t error, const char* what);

// Why nothing runs here; empty where a GPU answers.
const std::string& reason_without_gpu();

class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(int64_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// Page-locked, so that copies run beside the host.
class PinnedMemory {
 public:
  explicit PinnedMemory(int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// A stream that does not wait for the legacy default stream.
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

// Of tests that need a GPU: skips with the reason where there is none.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!reason_without_gpu().empty()) GTEST_SKIP() << reason_without_gpu();
  }
};

}  // namespace rowscale::test
