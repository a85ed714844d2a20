// Division by a number that is known before a kernel starts: a product and a shift.
#pragma once

#include <cstdint>

#include "numerics/fp.hpp"

namespace rowscale::plan {

struct QuotientRemainder {
  int64_t quotient;
  int64_t remainder;
};

// n / d and the rest, for n >= 0 and d > 0. A device divides 32 bits several times faster than 64.
ROWSCALE_HD QuotientRemainder divide(int64_t n, int64_t d) {
#if defined(__CUDA_ARCH__)
  if (((n | d) >> 32) == 0) {
    const auto small = static_cast<uint32_t>(n) / static_cast<uint32_t>(d);
    return {small, static_cast<uint32_t>(n) - small * static_cast<uint32_t>(d)};
  }
#endif
  return {n / d, n % d};
}

// n / d for n >= 0. Below 2^31 with the method of Granlund and Montgomery ("Division by invariant
// integers using multiplication", 1994): with 2^(s-1) < d <= 2^s and m = floor(2^32 (2^s - d) / d)
// + 1, n / d = (mulhi(m, n) + n) >> s; the sum stays below 2^32. Larger n or d are divided.
class Divider {
 public:
  Divider() = default;
  explicit Divider(int64_t divisor) : divisor_(divisor) {
    if (divisor > kSmall) return;
    while ((int64_t{1} << shift_) < divisor) ++shift_;
    const uint64_t excess = (uint64_t{1} << shift_) - static_cast<uint64_t>(divisor);
    magic_ = static_cast<uint32_t>((excess << 32) / static_cast<uint64_t>(divisor) + 1);
  }

  [[nodiscard]] ROWSCALE_HD int64_t divisor() const { return divisor_; }

  [[nodiscard]] ROWSCALE_HD int64_t divide(int64_t n) const {
    if (n > kSmall || divisor_ > kSmall) return n / divisor_;
    const auto small = static_cast<uint32_t>(n);
#if defined(__CUDA_ARCH__)
    const uint32_t high = __umulhi(magic_, small);
#else
    const auto high = static_cast<uint32_t>((uint64_t{magic_} * small) >> 32);
#endif
    return (high + small) >> shift_;
  }

 private:
  static constexpr int64_t kSmall = 0x7FFFFFFF;

  int64_t divisor_ = 1;
  uint32_t magic_ = 1;
  uint32_t shift_ = 0;
};

}  // namespace rowscale::plan
