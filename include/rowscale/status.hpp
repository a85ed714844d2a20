// The outcome of every call. The library never prints, throws on purpose, aborts or exits.
#pragma once

#include <string>
#include <utility>

#include "rowscale/export.hpp"

namespace rowscale {

enum class StatusCode : int {
  ok = 0,
  invalid_argument =
      1,             // a shape, dtype, stride, layout, pointer or value was refused before any work
  unsupported = 2,   // a valid request for which this build has no kernel
  no_device = 3,     // no such device, or a driver that is too old
  device_error = 4,  // the device's runtime reported an error; the message carries its name
  internal = 70,     // a fault of rowscale's own
};

// ok carries no message and costs no allocation. A failure says which parameter, what was expected
// and what came: "scales: expected f32 [128, 56], got f32 [128, 64]".
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == StatusCode::ok; }
  [[nodiscard]] StatusCode code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

// "ok", "invalid argument", ...
ROWSCALE_API const char* to_string(StatusCode code);

}  // namespace rowscale
