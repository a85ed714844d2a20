#include "rowscale/status.hpp"

namespace rowscale {

const char* to_string(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::invalid_argument:
      return "invalid argument";
    case StatusCode::unsupported:
      return "unsupported";
    case StatusCode::no_device:
      return "no device";
    case StatusCode::device_error:
      return "device error";
    case StatusCode::internal:
      return "internal error";
  }
  return "unknown status";
}

}  // namespace rowscale
