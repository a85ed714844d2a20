// When a file was written, as it is compared to see whether a file is still the same.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace rowscale::checkpoint {

// Nanoseconds since 1970.
inline int64_t modification_ns(const struct stat& info) {
  return info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
}

}  // namespace rowscale::checkpoint
