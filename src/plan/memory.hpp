// Reads and writes of a value at any address, on host and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "numerics/fp.hpp"

namespace rowscale::plan {

template <class T>
ROWSCALE_HD T load_as(const std::byte* from) {
#if defined(__CUDA_ARCH__)
  // A device faults where the address is no multiple of the size.
  if ((reinterpret_cast<uintptr_t>(from) & (sizeof(T) - 1)) == 0) {
    return *reinterpret_cast<const T*>(from);
  }
#endif
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
ROWSCALE_HD void store_as(std::byte* to, T value) {
#if defined(__CUDA_ARCH__)
  if ((reinterpret_cast<uintptr_t>(to) & (sizeof(T) - 1)) == 0) {
    *reinterpret_cast<T*>(to) = value;
    return;
  }
#endif
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace rowscale::plan
