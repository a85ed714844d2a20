#include "api/checkpoint_cast.hpp"

#include <cstring>

#include "cpu/checkpoint_cast.hpp"
#include "cuda/operators.hpp"
#include "numerics/checkpoint_cast.hpp"

namespace rowscale::api {
namespace {

template <class T>
void store_scale(float amax, void* scale) {
  const T stored = numerics::round_to<T>(numerics::checkpoint_scale<T>(amax));
  std::memcpy(scale, &stored, sizeof stored);
}

}  // namespace

Status checkpoint_quantize(const TensorView& x, const Recipe& recipe, const TensorView& codes,
                           const TensorView& scales, const Exec& exec) {
  if (x.device.type == DeviceType::cuda) {
    return cuda::checkpoint_quantize(x, recipe, codes, scales, exec);
  }
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

Status checkpoint_absmax(const TensorView& x, const TensorView& amax, const Exec& exec) {
  if (x.device.type == DeviceType::cuda) return cuda::checkpoint_absmax(x, amax, exec);
  const float value = cpu::checkpoint_absmax(x, exec);
  std::memcpy(amax.data, &value, sizeof value);
  return {};
}

}  // namespace rowscale::api
