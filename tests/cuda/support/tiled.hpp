// Inputs of gigabytes, and whether a machine has room for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/cuda/support/data.hpp"

namespace rowscale::test {

// A pool repeated on both sides. Its length is odd in elements, so that no two rows start alike.
class Tiled {
 public:
  Tiled(PoolKind kind, DType dtype, int64_t bytes);
  [[nodiscard]] const Shared& shared() const { return shared_; }

 private:
  std::unique_ptr<std::byte[]> host_;
  DeviceMemory device_;
  Shared shared_;
};

// Why a test of these sizes does not run here; empty where it does.
std::string too_large(int64_t host_bytes, int64_t device_bytes);

}  // namespace rowscale::test
