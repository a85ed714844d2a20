// A workspace in parts.
#pragma once

#include <cstddef>

namespace rowscale::cuda {

// Hands out offsets, each a multiple of 256 bytes.
class WorkspaceParts {
 public:
  size_t add(size_t bytes) {
    const size_t begin = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return begin;
  }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlignment = 256;
  size_t bytes_ = 0;
};

}  // namespace rowscale::cuda
