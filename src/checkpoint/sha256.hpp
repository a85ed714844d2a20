// SHA-256 (FIPS 180-4). Our own, because the command is one file without a library beside it, and
// a static libcrypto would be ten times its size for one function; tests hold it to published
// vectors and to another implementation. Uses the processor's SHA instructions where it has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace rowscale::checkpoint {

enum class Sha256Path { best, portable };  // tests force the second

class Sha256 {
 public:
  explicit Sha256(Sha256Path path = Sha256Path::best);

  void update(const void* data, size_t bytes);
  // Of everything so far, in hexadecimal; more may follow.
  [[nodiscard]] std::string hex() const;

 private:
  using Blocks = void (*)(uint32_t* state, const std::byte* data, size_t blocks);

  std::array<uint32_t, 8> state_;
  std::array<std::byte, 64> rest_{};  // of a block
  uint64_t bytes_ = 0;
  Blocks blocks_;
};

}  // namespace rowscale::checkpoint
