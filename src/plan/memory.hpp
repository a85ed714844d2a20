// Reads and writes of a value at any address, on host and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "numerics/fp.hpp"

namespace rowscale::plan {

// Where an address is known to be a multiple of the size, a device need not look.
enum class Alignment { any, natural };

template <class T, Alignment kAlignment = Alignment::any>
ROWSCALE_HD T load_as(const std::byte* from) {
#if defined(__CUDA_ARCH__)
  // A device faults where the address is no multiple of the size.
  if (kAlignment == Alignment::natural ||
      (reinterpret_cast<uintptr_t>(from) & (sizeof(T) - 1)) == 0) {
    return *reinterpret_cast<const T*>(from);
  }
#endif
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <Alignment kAlignment = Alignment::any, class T>
ROWSCALE_HD void store_as(std::byte* to, T value) {
#if defined(__CUDA_ARCH__)
  if (kAlignment == Alignment::natural ||
      (reinterpret_cast<uintptr_t>(to) & (sizeof(T) - 1)) == 0) {
    *reinterpret_cast<T*>(to) = value;
    return;
  }
#endif
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace rowscale::plan
