// Input data on both sides, made once: the cases of a cross read windows of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rowscale/types.hpp"
#include "tests/cuda/support/device.hpp"
#include "tests/cuda/support/lane.hpp"

namespace rowscale::test {

// Stretches of 1 to 40000 elements, each of one kind, so that rows and groups of every length lie
// inside one kind, across two, and across many.
enum class PoolKind {
  finite,  // normal of several sizes, ties, zeros, powers of two, subnormals beside nothing larger
  mixed,   // also infinities, NaN of both signs, huge and subnormal values, alone and among others
};
inline constexpr PoolKind kAllPoolKinds[] = {PoolKind::finite, PoolKind::mixed};
const char* to_string(PoolKind kind);

// Elements of a pool: the largest case of the cross and room for windows to move in.
inline constexpr int64_t kPoolElements = (int64_t{1} << 20) + (int64_t{1} << 17);

// Elements of f32, f16 or bf16, on the host.
std::vector<std::byte> make_pool(PoolKind kind, DType dtype, int64_t elements, uint64_t seed);

// The same on both sides, kPoolElements long, made on first use.
const Shared& data_pool(PoolKind kind, DType dtype);
// Random bytes: every code of both formats.
const Shared& code_pool();
// Scales to be given: f32 of any kind (zero, negative, infinite, NaN, subnormal among them), powers
// of two, or bytes. Host only: a call's scales go into its image.
const std::vector<std::byte>& scale_pool(ScaleEncoding encoding);

// A window of the pool that differs from case to case: bytes, a multiple of `alignment`.
int64_t window(uint64_t seed, int64_t room, int64_t alignment);

// A copy of host bytes on both sides.
class SharedCopy {
 public:
  explicit SharedCopy(std::vector<std::byte> bytes);
  [[nodiscard]] const Shared& shared() const { return shared_; }

 private:
  std::vector<std::byte> host_;
  DeviceMemory device_;
  Shared shared_;
};

}  // namespace rowscale::test
