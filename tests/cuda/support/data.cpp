#include "tests/cuda/support/data.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

enum class Stretch {
  normal,
  small,  // normal times 2^-12
  large,  // normal times 2^6
  ties,   // midpoints between codes
  zeros,
  signed_zeros,
  outlier,    // normal with one element in 64 a thousand times larger
  subnormal,  // of the dtype
  constant,
  wide,  // exponents over the whole range
  huge,  // the largest finite values of the dtype
  raw,   // any bits
  nans,
  infinities,
  with_nans,     // normal with one NaN in 50
  with_infinity  // normal with one infinity in 300
};
constexpr int kFiniteStretches = 9;
constexpr int kStretches = 16;

float value_of(Stretch stretch, DType dtype, Random& random) {
  const float smallest = dtype == DType::f16    ? 0x1p-24F
                         : dtype == DType::bf16 ? 0x1p-133F
                                                : 0x1p-149F;
  const float largest = dtype == DType::f16    ? 65504.0F
                        : dtype == DType::bf16 ? 0x1.FEp127F
                                               : 0x1.FFFFFEp127F;
  const auto sign = [&] { return random.below(2) == 0 ? 1.0F : -1.0F; };
  switch (stretch) {
    case Stretch::normal:
      return random.normal();
    case Stretch::small:
      return random.normal() * 0x1p-12F;
    case Stretch::large:
      return random.normal() * 0x1p6F;
    case Stretch::ties:
      return make_value(Data::ties, random);
    case Stretch::zeros:
      return 0.0F;
    case Stretch::signed_zeros:
      return 0.0F * sign();
    case Stretch::outlier:
      return random.normal() * (random.below(64) == 0 ? 1000.0F : 1.0F);
    case Stretch::subnormal:
      return smallest * static_cast<float>(random.below(100)) * sign();
    case Stretch::constant:
      return -0.375F;
    case Stretch::huge:
      return largest * (1.0F - static_cast<float>(random.below(100)) * 0x1p-8F) * sign();
    case Stretch::nans:
      return NAN;
    case Stretch::infinities:
      return INFINITY * sign();
    case Stretch::with_nans:
      return random.below(50) == 0 ? NAN : random.normal();
    case Stretch::with_infinity:
      return random.below(300) == 0 ? INFINITY * sign() : random.normal();
    case Stretch::wide:
    case Stretch::raw:
      break;
  }
  return 0.0F;
}

void fill_stretch(Stretch stretch, DType dtype, int64_t count, Random& random, std::byte* at) {
  const int64_t size = element_size(dtype);
  if (stretch == Stretch::wide || stretch == Stretch::raw) {
    const auto bytes =
        make_data(stretch == Stretch::wide ? Data::wide : Data::raw, dtype, count, random.next());
    std::memcpy(at, bytes.data(), bytes.size());
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    store_value(dtype, value_of(stretch, dtype, random), at + i * size);
  }
}

// One pool a key, made once, also where threads ask at the same time. Nothing is freed before the
// program ends.
template <class Make>
const Shared& once(std::unique_ptr<SharedCopy>& place, Make&& make) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!place) place = std::make_unique<SharedCopy>(make());
  return place->shared();
}

}  // namespace

const char* to_string(PoolKind kind) {
  return kind == PoolKind::finite ? "finite" : "mixed";
}

std::vector<std::byte> make_pool(PoolKind kind, DType dtype, int64_t elements, uint64_t seed) {
  Random random(seed);
  const int64_t size = element_size(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(elements * size));
  int64_t begin = 0;
  while (begin < elements) {
    // Lengths of every order: 1 to 40000.
    const auto most = static_cast<int64_t>(std::ldexp(1.0, static_cast<int>(random.below(16)))) + 1;
    const int64_t count =
        std::min(elements - begin, std::min<int64_t>(40000, 1 + random.below(most)));
    const auto stretch = static_cast<Stretch>(
        random.below(kind == PoolKind::finite ? kFiniteStretches : kStretches));
    fill_stretch(stretch, dtype, count, random, bytes.data() + begin * size);
    begin += count;
  }
  return bytes;
}

const Shared& data_pool(PoolKind kind, DType dtype) {
  static std::array<std::unique_ptr<SharedCopy>, 6> pools;
  const auto key = static_cast<size_t>(kind) * 3 + static_cast<size_t>(dtype);  // f32, f16, bf16
  return once(pools[key], [&] { return make_pool(kind, dtype, kPoolElements, 100 + key); });
}

const Shared& code_pool() {
  static std::unique_ptr<SharedCopy> pool;
  return once(pool, [] {
    std::vector<std::byte> bytes(static_cast<size_t>(kPoolElements));
    Random random(7);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() >> 56);
    return bytes;
  });
}

const std::vector<std::byte>& scale_pool(ScaleEncoding encoding) {
  static const std::array<std::vector<std::byte>, 3> pools = [] {
    std::array<std::vector<std::byte>, 3> made;
    constexpr float kOdd[] = {0.0F,      -0.0F,     -1.5F,           INFINITY, -INFINITY,
                              NAN,       0x1p-149F, 0x1.8p-130F,     0x1p-96F, 0x1.fffffep-97F,
                              0x1p-80F,  0x1p96F,   0x1.000002p96F,  0x1p126F, 0x1.000002p126F,
                              -0x1p-90F, 3e38F,     0x1.fffffep-81F, -3e38F,   0x1p-127F};
    constexpr float kEdge[] = {INFINITY, NAN, 0x1p-127F, 0x1p-126F};  // of UE8M0
    Random random(11);
    made[0].resize(static_cast<size_t>(kPoolElements) * 4);
    made[1].resize(made[0].size());
    made[2].resize(made[0].size());
    for (size_t i = 0; i < made[0].size(); i += 4) {
      const float power = std::ldexp(1.0F, static_cast<int>(random.below(40)) - 20);
      const float any = random.below(5) == 0
                            ? random.pick(kOdd)
                            : power * (1.0F + static_cast<float>(random.below(1 << 23)) * 0x1p-23F);
      float far = random.below(8) == 0 ? std::ldexp(1.0F, static_cast<int>(random.below(254)) - 126)
                                       : power;
      if (random.below(50) == 0) far = random.pick(kEdge);
      std::memcpy(made[0].data() + i, &any, 4);
      std::memcpy(made[1].data() + i, &far, 4);
      for (size_t j = 0; j < 4; ++j) {
        made[2][i + j] = static_cast<std::byte>(random.below(8) == 0 ? random.below(256)
                                                                     : 117 + random.below(20));
      }
    }
    return made;
  }();
  switch (encoding) {
    case ScaleEncoding::f32:
      return pools[0];
    case ScaleEncoding::ue8m0_f32:
      return pools[1];
    default:
      return pools[2];
  }
}

int64_t window(uint64_t seed, int64_t room, int64_t alignment) {
  Random random(seed);
  const int64_t steps = room / alignment;
  return steps <= 0 ? 0 : random.below(steps + 1) * alignment;
}

SharedCopy::SharedCopy(std::vector<std::byte> bytes)
    : host_(std::move(bytes)), device_(static_cast<int64_t>(host_.size())) {
  check_cuda(cudaMemcpy(device_.data(), host_.data(), host_.size(), cudaMemcpyHostToDevice),
             "copy of a pool");
  // A copy from pageable memory may still be on its way, and other streams do not wait for it.
  check_cuda(cudaStreamSynchronize(nullptr), "copy of a pool");
  shared_ = {host_.data(), device_.data(), static_cast<int64_t>(host_.size())};
}

}  // namespace rowscale::test
