// Copies of bytes on whatever device they lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rowscale/exec.hpp"
#include "rowscale/status.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::linear {

// Rows of `width` bytes; pitches of at least that.
struct Rows {
  std::byte* to = nullptr;
  int64_t to_pitch = 0;
  const std::byte* from = nullptr;
  int64_t from_pitch = 0;
  int64_t width = 0;
  int64_t height = 0;
};

Status copy_rows(const Rows& rows, Device device, const Exec& exec);

// Zeros in rows of `to`; `from` is not looked at.
Status zero_rows(const Rows& rows, Device device, const Exec& exec);

}  // namespace rowscale::linear
