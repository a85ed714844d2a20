#include "linear/copies.hpp"

#include <cstring>

#include "cuda/copies.hpp"

namespace rowscale::linear {

Status copy_rows(const Rows& rows, Device device, const Exec& exec) {
  if (rows.width <= 0 || rows.height <= 0) return {};
  if (device.type == DeviceType::cuda) return cuda::copy_rows(rows, device.index, exec);
  for (int64_t i = 0; i < rows.height; ++i) {
    std::memcpy(rows.to + i * rows.to_pitch, rows.from + i * rows.from_pitch,
                static_cast<size_t>(rows.width));
  }
  return {};
}

Status zero_rows(const Rows& rows, Device device, const Exec& exec) {
  if (rows.width <= 0 || rows.height <= 0) return {};
  if (device.type == DeviceType::cuda) return cuda::zero_rows(rows, device.index, exec);
  for (int64_t i = 0; i < rows.height; ++i) {
    std::memset(rows.to + i * rows.to_pitch, 0, static_cast<size_t>(rows.width));
  }
  return {};
}

}  // namespace rowscale::linear
