// The producers' kernels: every SIMD table against the scalar one over dense patterns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "cpu/kernels.hpp"
#include "cpu/target.hpp"
#include "rowscale/exec.hpp"
#include "tests/support/sweep.hpp"
#include "tests/support/test_data.hpp"

namespace rowscale::test {
namespace {

using cpu::Kernels;

constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};

class ProducerKernels : public testing::TestWithParam<Target> {
 protected:
  const Kernels& simd() const { return cpu::kernels(GetParam()); }
  const Kernels& scalar() const { return cpu::scalar_kernels(); }

  // call(kernels, y) for both tables: y holds n elements and must be equal, NaN included.
  void compare(DType dtype, int64_t n, const std::string& what,
               const std::function<void(const Kernels&, void*)>& call) const {
    std::vector<std::byte> got(static_cast<size_t>(n * element_size(dtype)));
    std::vector<std::byte> want(got.size());
    call(simd(), got.data());
    call(scalar(), want.data());
    for (int64_t i = 0; i < n; ++i) {
      const int64_t size = element_size(dtype);
      if (std::memcmp(got.data() + i * size, want.data() + i * size, static_cast<size_t>(size)) !=
          0) {
        FAIL() << what << " " << to_string(dtype) << " element " << i << ": got "
               << load_value(dtype, got.data() + i * size) << ", expected "
               << load_value(dtype, want.data() + i * size);
      }
    }
  }
};

// Every 16-bit pattern; every 3001st (a prime) f32 one. Under a sanitizer fewer.
std::vector<std::byte> patterns(DType dtype) {
  std::vector<std::byte> bytes;
  const uint64_t stride = dtype == DType::f32 ? uint64_t{3001} * kSlower : 1;
  const uint64_t last = dtype == DType::f32 ? 0xFFFFFFFFU : 0xFFFFU;
  for (uint64_t bits = 0; bits <= last; bits += stride) {
    const auto* at = reinterpret_cast<const std::byte*>(&bits);
    bytes.insert(bytes.end(), at, at + element_size(dtype));
  }
  return bytes;
}

int64_t count_of(DType dtype, const std::vector<std::byte>& bytes) {
  return static_cast<int64_t>(bytes.size()) / element_size(dtype);
}

// With up = 1 the result is the activation itself, so this is exp over its whole domain too.
TEST_P(ProducerKernels, GatedEveryGate) {
  for (DType dtype : kFloats) {
    const auto gate = patterns(dtype);
    const int64_t n = count_of(dtype, gate);
    for (float up_value : {1.0F, -2.5F}) {
      const auto up = data_of(dtype, std::vector<float>(static_cast<size_t>(n), up_value));
      for (cpu::Gate function : {cpu::Gate::silu, cpu::Gate::gelu_tanh}) {
        compare(dtype, n, "gated", [&](const Kernels& kernels, void* y) {
          kernels.gated[cpu::index_of(dtype)](gate.data(), up.data(), n, function, y);
        });
      }
    }
  }
}

TEST_P(ProducerKernels, GatedAnyUp) {
  for (DType dtype : kFloats) {
    for (int64_t n : {1, 7, 8, 15, 16, 17, 31, 33, 5000}) {
      for (Data data : kAllData) {
        const auto gate = make_data(data, dtype, n, 1);
        const auto up = make_data(data, dtype, n, 2);
        for (cpu::Gate function : {cpu::Gate::silu, cpu::Gate::gelu_tanh}) {
          compare(dtype, n, "gated", [&](const Kernels& kernels, void* y) {
            kernels.gated[cpu::index_of(dtype)](gate.data(), up.data(), n, function, y);
          });
        }
      }
    }
  }
}

TEST_P(ProducerKernels, SiluUnrounded) {
  for (DType dtype : kFloats) {
    const auto gate = patterns(dtype);
    const int64_t all = count_of(dtype, gate);
    for (int64_t n : {all, int64_t{1}, int64_t{7}, int64_t{33}}) {
      const auto up = make_data(Data::raw, dtype, n, 3);
      for (plan::SiluForm form : {plan::SiluForm::quotient, plan::SiluForm::product}) {
        compare(DType::f32, n, "silu", [&](const Kernels& kernels, void* y) {
          kernels.silu_unrounded[cpu::index_of(dtype)](gate.data(), up.data(), n, form,
                                                       static_cast<float*>(y));
        });
      }
    }
  }
}

TEST_P(ProducerKernels, Swiglu) {
  for (DType dtype : kFloats) {
    const auto gates = patterns(dtype);
    const int64_t n = count_of(dtype, gates);
    const int64_t size = element_size(dtype);
    // Each gate beside an up from the other end of the list.
    std::vector<std::byte> x(static_cast<size_t>(2 * n * size));
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(x.data() + 2 * i * size, gates.data() + i * size, static_cast<size_t>(size));
      std::memcpy(x.data() + (2 * i + 1) * size, gates.data() + (n - 1 - i) * size,
                  static_cast<size_t>(size));
    }
    for (const auto& [alpha, limit] :
         {std::pair{1.702F, 7.0F}, std::pair{1.0F, 0.0F}, std::pair{-0.5F, INFINITY}}) {
      compare(dtype, n, "swiglu", [&, a = alpha, l = limit](const Kernels& kernels, void* y) {
        kernels.swiglu[cpu::index_of(dtype)](x.data(), n, a, l, y);
      });
    }
    for (int64_t few = 1; few < 40; ++few) {
      compare(dtype, few, "swiglu", [&](const Kernels& kernels, void* y) {
        kernels.swiglu[cpu::index_of(dtype)](x.data() + 1001 * size, few, 1.702F, 7.0F, y);
      });
    }
  }
}

TEST_P(ProducerKernels, Relu2) {
  for (DType dtype : kFloats) {
    const auto x = patterns(dtype);
    const int64_t n = count_of(dtype, x);
    compare(dtype, n, "relu2", [&](const Kernels& kernels, void* y) {
      kernels.relu2[cpu::index_of(dtype)](x.data(), n, y);
    });
  }
}

// Sums of two values of a 16-bit type need more digits than it has: this rounds fp32 of all kinds.
TEST_P(ProducerKernels, AddRoundsAllKinds) {
  for (DType dtype : kFloats) {
    const auto x = patterns(dtype);
    const int64_t n = count_of(dtype, x);
    for (int64_t turn : {0, 1, 777, 4096, 12345}) {
      std::vector<std::byte> other(x);
      std::rotate(other.begin(), other.begin() + turn * element_size(dtype), other.end());
      compare(dtype, n, "add", [&](const Kernels& kernels, void* z) {
        kernels.add[cpu::index_of(dtype)](x.data(), other.data(), n, z);
      });
    }
  }
}

TEST_P(ProducerKernels, Norm) {
  for (DType dtype : kFloats) {
    const auto z = patterns(dtype);
    const int64_t n = count_of(dtype, z);
    const auto weight = values_of(DType::f32, make_data(Data::normal, DType::f32, n, 77));
    for (float factor : {1.0F, 0.37F, 1e-20F, 3e19F, INFINITY, 0.0F, NAN}) {
      for (NormForm form : {NormForm::standard, NormForm::gemma}) {
        compare(dtype, n, "norm", [&](const Kernels& kernels, void* y) {
          kernels.norm[cpu::index_of(dtype)](z.data(), n, factor, weight.data(), form, y);
        });
      }
    }
  }
}

// fp32 values of all kinds, rounded through and to each dtype.
TEST_P(ProducerKernels, NormOfFloats) {
  const auto z = patterns(DType::f32);
  const int64_t n = count_of(DType::f32, z);
  const auto weight = values_of(DType::f32, make_data(Data::normal, DType::f32, n, 78));
  for (DType dtype : kFloats) {
    for (float factor : {1.0F, 0.37F, 3e19F}) {
      compare(dtype, n, "norm", [&](const Kernels& kernels, void* y) {
        kernels.norm_of_floats[cpu::index_of(dtype)](z.data(), n, factor, weight.data(),
                                                     NormForm::standard, y);
      });
    }
  }
}

// Values are exact in fp32; a signalling NaN may come out quiet.
TEST_P(ProducerKernels, Widen) {
  for (DType dtype : kFloats) {
    const auto x = patterns(dtype);
    const int64_t n = count_of(dtype, x);
    std::vector<float> got(static_cast<size_t>(n));
    simd().widen[cpu::index_of(dtype)](x.data(), n, got.data());
    for (int64_t i = 0; i < n; ++i) {
      const float want = load_value(dtype, x.data() + i * element_size(dtype));
      const float have = got[static_cast<size_t>(i)];
      ASSERT_TRUE(std::isnan(want) ? std::isnan(have) : std::memcmp(&want, &have, sizeof want) == 0)
          << to_string(dtype) << " element " << i << ": got " << have << ", expected " << want;
    }
  }
}

// The tree's lanes, in one call and in the steps that strips make.
TEST_P(ProducerKernels, SumSquares) {
  for (DType dtype : kFloats) {
    for (Data data : {Data::normal, Data::wide, Data::raw}) {
      for (int64_t n : {1, 7, 8, 9, 63, 64, 65, 255, 2047, 2048, 2049, 4096, 6001, 10000}) {
        const auto z = make_data(data, dtype, n, static_cast<uint64_t>(n));
        std::vector<float> want(256, 0.0F);
        std::vector<float> whole(256, 0.0F);
        std::vector<float> steps(256, 0.0F);
        scalar().sum_squares[cpu::index_of(dtype)](z.data(), n, want.data());
        simd().sum_squares[cpu::index_of(dtype)](z.data(), n, whole.data());
        for (int64_t done = 0; done < n; done += 2048) {
          simd().sum_squares[cpu::index_of(dtype)](z.data() + done * element_size(dtype),
                                                   std::min<int64_t>(2048, n - done), steps.data());
        }
        for (size_t l = 0; l < 256; ++l) {
          for (float got : {whole[l], steps[l]}) {
            ASSERT_TRUE((std::isnan(got) && std::isnan(want[l])) ||
                        std::memcmp(&got, &want[l], sizeof got) == 0)
                << to_string(dtype) << " " << to_string(data) << " n " << n << " lane " << l;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Simd, ProducerKernels, testing::ValuesIn([] {
                           std::vector<Target> targets = supported_targets();
                           std::erase(targets, Target::scalar);
                           return targets;
                         }()),
                         [](const auto& test) { return to_string(test.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProducerKernels);

}  // namespace
}  // namespace rowscale::test
