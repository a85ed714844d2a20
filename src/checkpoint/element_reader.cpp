#include "checkpoint/element_reader.hpp"

#include <cstring>

#include "checkpoint/failure.hpp"
#include "numerics/float16.hpp"
#include "numerics/fp8.hpp"
#include "numerics/ue8m0.hpp"

namespace rowscale::checkpoint {
namespace {

template <class T, class Widen>
void each(std::span<const std::byte> raw, float* out, Widen widen_one) {
  for (size_t i = 0; i < raw.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));  // at any address
    out[i] = widen_one(value);
  }
}

}  // namespace

bool holds_floats(StoredType type) {
  switch (type) {
    case StoredType::f32:
    case StoredType::f16:
    case StoredType::bf16:
    case StoredType::f8_e4m3:
    case StoredType::f8_e5m2:
    case StoredType::f8_e8m0:
      return true;
    default:
      return false;
  }
}

void widen(StoredType type, std::span<const std::byte> raw, float* out) {
  using numerics::Bf16;
  using numerics::Fp16;
  switch (type) {
    case StoredType::f32:
      std::memcpy(out, raw.data(), raw.size());
      return;
    case StoredType::f16:
      return each<Fp16>(raw, out, [](Fp16 x) { return numerics::to_f32(x); });
    case StoredType::bf16:
      return each<Bf16>(raw, out, [](Bf16 x) { return numerics::to_f32(x); });
    case StoredType::f8_e4m3:
      return each<uint8_t>(raw, out, [](uint8_t x) { return numerics::decode<numerics::E4m3>(x); });
    case StoredType::f8_e5m2:
      return each<uint8_t>(raw, out, [](uint8_t x) { return numerics::decode<numerics::E5m2>(x); });
    default:
      return each<uint8_t>(raw, out, [](uint8_t x) { return numerics::ue8m0_decode(x); });
  }
}

std::span<const float> ElementReader::read(int64_t first, int64_t count) {
  const int64_t size = bits_per_element(entry_.type) / 8;
  raw_.resize(static_cast<size_t>(count * size));
  floats_.resize(static_cast<size_t>(count));
  require_readable(file_->read(entry_.begin + first * size, count * size, raw_.data()));
  widen(entry_.type, raw_, floats_.data());
  return floats_;
}

int64_t elements_of(const TensorEntry& entry) {
  int64_t count = 1;
  for (const int64_t size : entry.shape) count *= size;
  return count;
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace rowscale::checkpoint
