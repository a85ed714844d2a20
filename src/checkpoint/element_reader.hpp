// Elements of a stored tensor as floats, a strip at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {

// F32, F16, BF16, F8_E4M3, F8_E5M2 and F8_E8M0 (255 becomes NaN); each value of these is a float.
bool holds_floats(StoredType type);

// `raw`: elements of `type` as they lie in the file, for which holds_floats().
void widen(StoredType type, std::span<const std::byte> raw, float* out);

// Reads strips of one tensor; keeps its buffers from one to the next.
class ElementReader {
 public:
  // `file` must be acquired and outlive the reader; holds_floats(entry.type).
  ElementReader(const TensorFile& file, const TensorEntry& entry) : file_(&file), entry_(entry) {}

  // Elements `first` .. `first + count`, valid until the next call. Throws Failure(unreadable).
  std::span<const float> read(int64_t first, int64_t count);

 private:
  const TensorFile* file_;
  TensorEntry entry_;
  std::vector<std::byte> raw_;
  std::vector<float> floats_;
};

int64_t elements_of(const TensorEntry& entry);
std::string shape_text(std::span<const int64_t> shape);  // "[4096, 128]"

}  // namespace rowscale::checkpoint
