// Failures of src/checkpoint as exit codes.
#pragma once

#include "checkpoint/failure.hpp"
#include "failure.hpp"

namespace rowscale::cli {

inline ExitCode exit_code_of(checkpoint::FailureKind kind) {
  switch (kind) {
    case checkpoint::FailureKind::check:
      return ExitCode::check;
    case checkpoint::FailureKind::usage:
      return ExitCode::usage;
    case checkpoint::FailureKind::data:
    case checkpoint::FailureKind::unreadable:
    case checkpoint::FailureKind::input:
      return ExitCode::input;
    case checkpoint::FailureKind::output:
      return ExitCode::output;
    case checkpoint::FailureKind::unsupported:
      break;
  }
  return ExitCode::unsupported;
}

}  // namespace rowscale::cli
