// Seeded input data of the kinds that break quantizers. The same seed gives the same bytes on every
// machine: only integers and exact operations are used.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "numerics/float16.hpp"
#include "rowscale/tensor.hpp"

namespace rowscale::test {

// splitmix64 (public domain, Sebastiano Vigna).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  // 0 .. n - 1
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  // The sum of 12 uniform numbers less 6: nearly normal.
  float normal() {
    int64_t sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<int64_t>(next() >> 48);
    return static_cast<float>(sum - 6 * 65536) * 0x1p-16F;
  }
  template <class List>
  auto pick(const List& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(std::size(list))))];
  }

 private:
  uint64_t state_;
};

enum class Data {
  normal,  // about N(0, 1)
  wide,    // exponents over the whole range of the dtype
  raw,     // any bits: NaN of both signs, infinities, subnormals
  ties,    // midpoints between codes, at scales that are powers of two
};
inline constexpr Data kAllData[] = {Data::normal, Data::wide, Data::raw, Data::ties};

inline const char* to_string(Data data) {
  constexpr const char* kNames[] = {"normal", "wide", "raw", "ties"};
  return kNames[static_cast<int>(data)];
}

inline float make_value(Data data, Random& random) {
  switch (data) {
    case Data::normal:
      return random.normal();
    case Data::wide: {
      const auto exponent = static_cast<uint32_t>(random.below(255));
      const auto rest = static_cast<uint32_t>(random.next());
      return std::bit_cast<float>((rest & 0x807FFFFFU) | exponent << 23);
    }
    case Data::raw:
      return std::bit_cast<float>(static_cast<uint32_t>(random.next()));
    case Data::ties: {
      // 1 in 16 is the largest code at this scale, so that groups have it and the scale is 2^-4.
      if (random.below(16) == 0) return 28.0F;
      const auto odd = static_cast<float>(2 * random.below(16) + 1);
      const auto value = std::ldexp(odd, static_cast<int>(random.below(20)) - 16);
      return random.below(2) == 0 ? value : -value;
    }
  }
  return 0.0F;
}

inline void store_value(DType dtype, float value, std::byte* at) {
  if (dtype == DType::f32) {
    std::memcpy(at, &value, 4);
  } else {
    const uint16_t bits = dtype == DType::bf16 ? numerics::round_to<numerics::Bf16>(value).bits
                                               : numerics::round_to<numerics::Fp16>(value).bits;
    std::memcpy(at, &bits, 2);
  }
}

inline float load_value(DType dtype, const std::byte* at) {
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, at, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return dtype == DType::bf16 ? numerics::to_f32(numerics::Bf16{bits})
                              : numerics::to_f32(numerics::Fp16{bits});
}

// `count` elements of f32, f16 or bf16.
inline std::vector<std::byte> make_data(Data data, DType dtype, int64_t count, uint64_t seed) {
  Random random(seed);
  const int64_t size = element_size(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(count * size));
  for (int64_t i = 0; i < count; ++i) {
    std::byte* at = bytes.data() + i * size;
    if (data == Data::raw) {
      const uint64_t bits = random.next();
      std::memcpy(at, &bits, static_cast<size_t>(size));
    } else if (data == Data::wide && dtype == DType::f16) {
      const auto bits = static_cast<uint16_t>(random.below(0x7C00) | random.below(2) << 15);
      std::memcpy(at, &bits, 2);
    } else {
      store_value(dtype, make_value(data, random), at);
    }
  }
  return bytes;
}

// Elements with these values, which the dtype holds exactly or as their nearest.
inline std::vector<std::byte> data_of(DType dtype, const std::vector<float>& values) {
  const auto size = static_cast<size_t>(element_size(dtype));
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    store_value(dtype, values[i], bytes.data() + i * size);
  }
  return bytes;
}

inline std::vector<float> values_of(DType dtype, const std::vector<std::byte>& bytes) {
  const auto size = static_cast<size_t>(element_size(dtype));
  std::vector<float> values(bytes.size() / size);
  for (size_t i = 0; i < values.size(); ++i) values[i] = load_value(dtype, bytes.data() + i * size);
  return values;
}

}  // namespace rowscale::test
