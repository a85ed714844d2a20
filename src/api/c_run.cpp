#include "api/c_run.hpp"

#include <algorithm>
#include <cstring>

#include "api/check.hpp"

namespace rowscale::api {
namespace {

// Plain memory: it needs no destructor, so it serves threads and processes that are ending, and a
// call without memory. Longer messages are cut.
constexpr size_t kMessageBytes = 1024;
thread_local char kept[kMessageBytes];

}  // namespace

void keep_message(const char* message) noexcept {
  const size_t length = std::min(std::strlen(message), kMessageBytes - 1);
  std::memcpy(kept, message, length);
  kept[length] = '\0';
}

const char* last_message() noexcept {
  return kept;
}

Status write_text(const std::string& whole, char* text, size_t capacity, size_t* needed) {
  if (text == nullptr && capacity > 0) return invalid("text: expected a buffer, got NULL");
  if (needed != nullptr) *needed = whole.size() + 1;
  if (capacity > 0) {
    const size_t length = std::min(whole.size(), capacity - 1);
    std::memcpy(text, whole.data(), length);
    text[length] = '\0';
  }
  return {};
}

}  // namespace rowscale::api
