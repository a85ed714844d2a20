// Memory for an output: poisoned before the call, with guard zones on both sides that must be
// unchanged after it. Inputs lie in plain vectors instead, whose ends the sanitizers watch.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <vector>

namespace rowscale::test {

inline constexpr std::byte kPoison{0xA5};

class GuardedBuffer {
 public:
  static constexpr int64_t kGuard = 192;

  // `shift` bytes behind the alignment of the heap.
  explicit GuardedBuffer(int64_t size = 0, int64_t shift = 0)
      : begin_(kGuard + shift),
        size_(size),
        bytes_(static_cast<size_t>(2 * kGuard + shift + size)) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = guard(i);
    std::memset(data(), std::to_integer<int>(kPoison), static_cast<size_t>(size));
  }

  std::byte* data() { return bytes_.data() + begin_; }
  const std::byte* data() const { return bytes_.data() + begin_; }
  int64_t size() const { return size_; }
  std::vector<std::byte> content() const { return {data(), data() + size_}; }

  testing::AssertionResult guards_are_unchanged() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const auto at = static_cast<int64_t>(i) - begin_;
      if ((at < 0 || at >= size_) && bytes_[i] != guard(i)) {
        return testing::AssertionFailure()
               << "byte " << at << " was written, beside a buffer of " << size_ << " bytes";
      }
    }
    return testing::AssertionSuccess();
  }

 private:
  // Depends on the place, so that no constant fill goes unnoticed.
  static std::byte guard(size_t i) { return static_cast<std::byte>((i * 37U + 11U) & 0xFFU); }

  int64_t begin_;
  int64_t size_;
  std::vector<std::byte> bytes_;
};

// Where two byte strings first differ.
inline testing::AssertionResult same_bytes(const std::vector<std::byte>& got,
                                           const std::vector<std::byte>& want) {
  if (got.size() != want.size()) {
    return testing::AssertionFailure() << got.size() << " bytes, expected " << want.size();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] != want[i]) {
      std::ostringstream text;
      text << "byte " << i << " of " << got.size() << ": got 0x" << std::hex
           << std::to_integer<int>(got[i]) << ", expected 0x" << std::to_integer<int>(want[i]);
      return testing::AssertionFailure() << text.str();
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace rowscale::test
