#include "api/checkpoint_cast.hpp"

#include <fmt/format.h>

#include <cstring>

#include "cpu/checkpoint_cast.hpp"
#include "numerics/checkpoint_cast.hpp"

namespace rowscale::api {
namespace {

Status check_on_cpu(const TensorView& x) {
  if (x.device.type == DeviceType::cpu) return {};
  return {StatusCode::unsupported,
          fmt::format("this build has kernels for the cpu, got {}", to_string(x))};
}

template <class T>
void store_scale(float amax, void* scale) {
  const T stored = numerics::round_to<T>(numerics::checkpoint_scale<T>(amax));
  std::memcpy(scale, &stored, sizeof stored);
}

}  // namespace

Status checkpoint_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                           const TensorView& scales, const Exec& exec) {
  if (Status status = check_on_cpu(x); !status.ok()) return status;
  cpu::checkpoint_quantize(x, recipe, codes, scales, exec);
  return {};
}

void checkpoint_scale(DType dtype, float amax, void* scale) {
  switch (dtype) {
    case DType::bf16:
      return store_scale<numerics::Bf16>(amax, scale);
    case DType::f16:
      return store_scale<numerics::Fp16>(amax, scale);
    default:
      return store_scale<float>(amax, scale);
  }
}

Status checkpoint_absmax(const TensorView& x, const Exec& exec, float* amax) {
  if (Status status = check_on_cpu(x); !status.ok()) return status;
  *amax = cpu::checkpoint_absmax(x, exec);
  return {};
}

}  // namespace rowscale::api
