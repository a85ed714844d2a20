// Reading an open file by position.
#pragma once

#include <cstdint>

#include "rowscale/status.hpp"

namespace rowscale::checkpoint {

// All of `bytes`, from `offset`, to `out`. By pread: a file that shrinks meanwhile is a message,
// not a signal. invalid_argument: it cannot be read, or has shrunk; the message does not name the
// file.
Status read_at(int fd, int64_t offset, int64_t bytes, char* out);

}  // namespace rowscale::checkpoint
