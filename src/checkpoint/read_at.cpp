#include "checkpoint/read_at.hpp"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace rowscale::checkpoint {
namespace {

Status failed(std::string message) {
  return {StatusCode::invalid_argument, std::move(message)};
}

}  // namespace

Status read_at(int fd, int64_t offset, int64_t bytes, char* out) {
  while (bytes > 0) {
    const ssize_t got = pread(fd, out, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("cannot be read: " + std::generic_category().message(errno));
    if (got == 0) return failed("the file shrank while it was read");
    out += got;
    offset += got;
    bytes -= got;
  }
  return {};
}

}  // namespace rowscale::checkpoint
