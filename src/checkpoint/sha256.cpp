#include "checkpoint/sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rowscale::checkpoint {
namespace {

constexpr size_t kBlock = 64;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(64) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const std::byte* p) {
  uint32_t word = 0;
  std::memcpy(&word, p, sizeof word);
  return __builtin_bswap32(word);
}

void portable_blocks(uint32_t* state, const std::byte* data, size_t blocks) {
  for (; blocks > 0; --blocks, data += kBlock) {
    uint32_t w[64];
    for (int t = 0; t < 16; ++t) w[t] = big_endian(data + std::ptrdiff_t{4} * t);
    for (int t = 16; t < 64; ++t) {
      const uint32_t a = w[t - 15];
      const uint32_t b = w[t - 2];
      w[t] = w[t - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[t - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    uint32_t s[8];
    std::copy(state, state + 8, s);
    for (int t = 0; t < 64; ++t) {
      const uint32_t sum1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
      const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
      const uint32_t t1 = s[7] + sum1 + choice + kRound[t] + w[t];
      const uint32_t sum0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
      const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
      std::copy_backward(s, s + 7, s + 8);
      s[4] += t1;
      s[0] = t1 + sum0 + majority;
    }
    for (int i = 0; i < 8; ++i) state[i] += s[i];
  }
}

#if defined(__x86_64__)
// The instructions keep the state as ABEF and CDGH, and do four rounds in two steps.
__attribute__((target("sha,sse4.1"))) void sha_blocks(uint32_t* state, const std::byte* data,
                                                      size_t blocks) {
  const __m128i bytes_of_words = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));
  const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1B);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
  for (; blocks > 0; --blocks, data += kBlock) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4];
#pragma GCC unroll 16
    for (int step = 0; step < 16; ++step) {
      __m128i& now = w[step % 4];
      if (step < 4) {
        now = _mm_shuffle_epi8(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + std::ptrdiff_t{16} * step)),
            bytes_of_words);
      } else {
        const __m128i w7 = _mm_alignr_epi8(w[(step + 3) % 4], w[(step + 2) % 4], 4);
        now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(step + 1) % 4]), w7),
                                   w[(step + 3) % 4]);
      }
      __m128i sum = _mm_add_epi32(
          now, _mm_load_si128(reinterpret_cast<const __m128i*>(kRound + std::ptrdiff_t{4} * step)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      sum = _mm_shuffle_epi32(sum, 0x0E);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, sum);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

bool has_sha() {
  unsigned eax = 7;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  __asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  return (ebx >> 29 & 1U) != 0 && __builtin_cpu_supports("sse4.1") != 0;
}
#endif

}  // namespace

Sha256::Sha256([[maybe_unused]] Sha256Path path)
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      blocks_(portable_blocks) {
#if defined(__x86_64__)
  static const bool kHasSha = has_sha();
  if (path == Sha256Path::best && kHasSha) blocks_ = sha_blocks;
#endif
}

void Sha256::update(const void* data, size_t bytes) {
  const auto* p = static_cast<const std::byte*>(data);
  const size_t held = bytes_ % kBlock;
  bytes_ += bytes;
  if (held > 0) {
    const size_t take = std::min(bytes, kBlock - held);
    std::memcpy(rest_.data() + held, p, take);
    p += take;
    bytes -= take;
    if (held + take < kBlock) return;
    blocks_(state_.data(), rest_.data(), 1);
  }
  blocks_(state_.data(), p, bytes / kBlock);
  if (bytes % kBlock > 0) std::memcpy(rest_.data(), p + bytes / kBlock * kBlock, bytes % kBlock);
}

std::string Sha256::hex() const {
  Sha256 last = *this;
  const uint64_t bits = bytes_ * 8;
  const size_t held = bytes_ % kBlock;
  std::byte pad[2 * kBlock] = {std::byte{0x80}};
  const size_t padding = (held < 56 ? 56 : 120) - held;
  for (size_t i = 0; i < 8; ++i) pad[padding + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  last.update(pad, padding + 8);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const uint32_t word : last.state_) {
    for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[word >> shift & 0xFU];
  }
  return out;
}

}  // namespace rowscale::checkpoint
