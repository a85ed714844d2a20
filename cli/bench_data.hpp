// What a benchmark works on: memory that is there already, filled with a named pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "rowscale/types.hpp"

namespace rowscale::cli {

// Bytes at a page boundary, written once, so that no page fault is measured later.
class Buffer {
 public:
  explicit Buffer(int64_t bytes);  // throws Failure(output) where there is not so much
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t bytes_;
};

enum class Pattern {
  normal,       // mean 0, deviation 1
  zeros,        // all +0
  equal,        // all 1.5
  subnormal,    // random subnormals of the dtype
  specials,     // normal, and one element in 64 is NaN or an infinity
  bits,         // any bit pattern
  zeros_tenth,  // normal, and 0.1 % zeros
  zeros_one,    // 1 %
  zeros_ten,    // 10 %
  zeros_fifty,  // 50 %
  relu,         // normal, negative values replaced by zero
  infinities,   // normal, and one element in 64 is an infinity
};

// Those that `bench quantize --patterns` runs on the CPU.
inline constexpr Pattern kPatterns[] = {Pattern::normal,    Pattern::zeros,    Pattern::equal,
                                        Pattern::subnormal, Pattern::specials, Pattern::bits};

const char* to_string(Pattern pattern);

// One word for a command line: "relu", "zeros10".
Pattern parse_pattern(const std::string& key);  // throws Failure(usage)
std::string pattern_keys();                     // all of them: "normal, zeros, ..."

// f32, f16 or bf16 elements; the same on every machine.
void fill(const Buffer& buffer, DType dtype, Pattern pattern);

}  // namespace rowscale::cli
