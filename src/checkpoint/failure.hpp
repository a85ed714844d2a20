// How work on checkpoints gives up. Above the safetensors reader, which returns a Status, failures
// are thrown: they come from everywhere in long work, and end it. The command turns the kind into
// its exit code.
#pragma once

#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "rowscale/status.hpp"

namespace rowscale::checkpoint {

enum class FailureKind {
  check,        // something that was asked to hold does not
  usage,        // arguments, or a target that is in the way
  data,         // a number that cannot be quantized: as input, and no use to continue
  unreadable,   // a file that cannot be opened or read on, or changes: as input, and nothing is
                // known of what it holds
  input,        // malformed, unsupported, already quantized, nothing to quantize
  output,       // no room, quota, I/O error
  unsupported,  // no kernel or device for what was asked
};

class Failure : public std::runtime_error {
 public:
  Failure(FailureKind kind, const std::string& message)
      : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] FailureKind kind() const { return kind_; }

 private:
  FailureKind kind_;
};

template <class... Args>
[[noreturn]] void refuse_input(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(FailureKind::input, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
[[noreturn]] void refuse_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(FailureKind::usage, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void refuse_data(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(FailureKind::data, fmt::format(format, std::forward<Args>(args)...));
}

// Of the safetensors reader, which has no other way than `internal` to say that memory ran out.
// Of a file's header.
inline void require_header(const Status& status) {
  if (status.code() == StatusCode::internal) throw std::bad_alloc();
  if (!status.ok()) throw Failure(FailureKind::input, status.message());
}
// Of a file whose header was read before.
inline void require_readable(const Status& status) {
  if (!status.ok()) throw Failure(FailureKind::unreadable, status.message());
}

}  // namespace rowscale::checkpoint
