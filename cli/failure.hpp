// How a command gives up: an exit code and one line for stderr.
#pragma once

#include <stdexcept>
#include <string>

#include "rowscale/status.hpp"

namespace rowscale::cli {

enum class ExitCode : int {
  done = 0,
  check = 1,        // something that was asked to hold does not
  usage = 2,        // bad arguments
  input = 3,        // input unreadable or malformed
  output = 4,       // no room, I/O error
  unsupported = 5,  // no kernel or device for what was asked
  fault = 70,       // ours, or a call to a GPU that failed on the way
};

class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Throws where `status` is no success.
inline void require(const Status& status) {
  switch (status.code()) {
    case StatusCode::ok:
      return;
    case StatusCode::invalid_argument:
      throw Failure(ExitCode::usage, status.message());
    case StatusCode::unsupported:
    case StatusCode::no_device:
      throw Failure(ExitCode::unsupported, status.message());
    default:
      throw Failure(ExitCode::fault, status.message());
  }
}

}  // namespace rowscale::cli
