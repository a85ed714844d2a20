#include "bench_data.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "float_bits.hpp"
#include "random.hpp"

namespace rowscale::cli {
namespace {

constexpr size_t kPage = 4096;
constexpr uint64_t kSeed = 20240229;

// Drawing from a sample of the distribution is ten times as fast as drawing from the distribution.
std::vector<uint32_t> normal_sample(DType dtype) {
  Random random(kSeed);
  std::vector<uint32_t> sample(size_t{1} << 16);
  for (uint32_t& bits : sample) bits = float_bits(dtype, static_cast<float>(random.normal()));
  return sample;
}

// next(r) makes one element of 32 random bits.
template <class Element, class Next>
void fill_with(const Buffer& buffer, Next next) {
  Random random(kSeed + 1);
  const auto count = static_cast<size_t>(buffer.bytes()) / sizeof(Element);
  for (size_t i = 0; i < count; i += 2) {
    const uint64_t r = random.next();
    const Element pair[2] = {static_cast<Element>(next(static_cast<uint32_t>(r))),
                             static_cast<Element>(next(static_cast<uint32_t>(r >> 32)))};
    const size_t left = count - i < 2 ? 1 : 2;
    std::memcpy(buffer.data() + i * sizeof(Element), pair, left * sizeof(Element));
  }
}

template <class Element>
void fill_as(const Buffer& buffer, DType dtype, Pattern pattern) {
  const FloatFormat format = float_format(dtype);
  const uint32_t mantissa = (1U << format.mantissa_bits) - 1;
  const std::vector<uint32_t> sample = normal_sample(dtype);
  const uint32_t equal = float_bits(dtype, 1.5F);
  const auto normal = [&](uint32_t r) { return sample[r & 0xFFFFU]; };
  switch (pattern) {
    case Pattern::normal:
      return fill_with<Element>(buffer, normal);
    case Pattern::zeros:
      return fill_with<Element>(buffer, [](uint32_t) { return 0U; });
    case Pattern::equal:
      return fill_with<Element>(buffer, [=](uint32_t) { return equal; });
    case Pattern::subnormal: {
      return fill_with<Element>(buffer, [=](uint32_t r) { return r & (format.sign | mantissa); });
    }
    case Pattern::specials: {
      return fill_with<Element>(buffer, [=](uint32_t r) {
        if ((r >> 26) != 0) return normal(r);
        const uint32_t nan = (r & 1U) != 0 ? mantissa : 0U;
        return (r & format.sign) | format.exponent | nan;
      });
    }
    case Pattern::bits:
      return fill_with<Element>(buffer, [](uint32_t r) { return r; });
  }
}

}  // namespace

Buffer::Buffer(int64_t bytes) : bytes_(bytes) {
  const size_t whole_pages = (static_cast<size_t>(bytes) + kPage) / kPage * kPage;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, whole_pages)));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_.get(), 1, whole_pages);  // zeros might stay unmapped
}

void Buffer::Free::operator()(std::byte* data) const {
  std::free(data);
}

const char* to_string(Pattern pattern) {
  switch (pattern) {
    case Pattern::normal:
      return "normal";
    case Pattern::zeros:
      return "zeros";
    case Pattern::equal:
      return "all equal";
    case Pattern::subnormal:
      return "subnormal";
    case Pattern::specials:
      return "with NaN and inf";
    case Pattern::bits:
      return "any bits";
  }
  return "?";
}

void fill(const Buffer& buffer, DType dtype, Pattern pattern) {
  if (float_format(dtype).bytes == 2) return fill_as<uint16_t>(buffer, dtype, pattern);
  fill_as<uint32_t>(buffer, dtype, pattern);
}

}  // namespace rowscale::cli
