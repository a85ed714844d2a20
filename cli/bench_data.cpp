#include "bench_data.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "failure.hpp"
#include "float_bits.hpp"
#include "machine.hpp"
#include "random.hpp"

namespace rowscale::cli {
namespace {

constexpr size_t kPage = 4096;
constexpr uint64_t kSeed = 20240229;

struct PatternWords {
  Pattern pattern;
  const char* key;
  const char* words;
};

constexpr PatternWords kPatternWords[] = {
    {Pattern::normal, "normal", "normal"},
    {Pattern::zeros, "zeros", "zeros"},
    {Pattern::equal, "equal", "all equal"},
    {Pattern::subnormal, "subnormal", "subnormal"},
    {Pattern::specials, "specials", "with NaN and inf"},
    {Pattern::bits, "bits", "any bits"},
    {Pattern::zeros_tenth, "zeros0.1", "0.1 % zeros"},
    {Pattern::zeros_one, "zeros1", "1 % zeros"},
    {Pattern::zeros_ten, "zeros10", "10 % zeros"},
    {Pattern::zeros_fifty, "zeros50", "50 % zeros"},
    {Pattern::relu, "relu", "ReLU output"},
    {Pattern::infinities, "infinities", "with infinities"},
};

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
  // The upper half of the random bits decides, the lower half draws.
  const auto with_zeros = [&](double share) {
    const auto below = static_cast<uint32_t>(share * 0x1p16);
    fill_with<Element>(buffer, [=](uint32_t r) { return r >> 16 < below ? 0U : normal(r); });
  };
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
    case Pattern::zeros_tenth:
      return with_zeros(0.001);
    case Pattern::zeros_one:
      return with_zeros(0.01);
    case Pattern::zeros_ten:
      return with_zeros(0.1);
    case Pattern::zeros_fifty:
      return with_zeros(0.5);
    case Pattern::relu:
      return fill_with<Element>(buffer, [=](uint32_t r) {
        const uint32_t value = normal(r);
        return (value & format.sign) != 0 ? 0U : value;
      });
    case Pattern::infinities:
      return fill_with<Element>(buffer, [=](uint32_t r) {
        return (r >> 26) != 0 ? normal(r) : (r & format.sign) | format.exponent;
      });
  }
}

}  // namespace

Buffer::Buffer(int64_t bytes) : bytes_(bytes) {
  // Before the kernel ends the process, this one or another.
  if (const int64_t available = available_memory(); bytes > available) {
    throw Failure(
        ExitCode::output,
        fmt::format("{} MiB of memory are needed beside what is taken, {} are left: take a "
                    "smaller tensor",
                    bytes >> 20, available >> 20));
  }
  const size_t whole_pages = (static_cast<size_t>(bytes) + kPage) / kPage * kPage;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, whole_pages)));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_.get(), 1, whole_pages);  // zeros might stay unmapped
}

void Buffer::Free::operator()(std::byte* data) const {
  std::free(data);
}

const char* to_string(Pattern pattern) {
  for (const PatternWords& one : kPatternWords) {
    if (one.pattern == pattern) return one.words;
  }
  return "?";
}

std::string pattern_keys() {
  std::string keys;
  for (const PatternWords& one : kPatternWords) {
    keys += (keys.empty() ? "" : ", ") + std::string(one.key);
  }
  return keys;
}

Pattern parse_pattern(const std::string& key) {
  for (const PatternWords& one : kPatternWords) {
    if (key == one.key) return one.pattern;
  }
  throw Failure(ExitCode::usage, "--data: expected one of " + pattern_keys() + ", got " + key);
}

void fill(const Buffer& buffer, DType dtype, Pattern pattern) {
  if (float_format(dtype).bytes == 2) return fill_as<uint16_t>(buffer, dtype, pattern);
  fill_as<uint32_t>(buffer, dtype, pattern);
}

}  // namespace rowscale::cli
