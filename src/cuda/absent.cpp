// The CUDA operators of a build without CUDA.
#include "cuda/copies.hpp"
#include "cuda/devices.hpp"
#include "cuda/operators.hpp"

namespace rowscale::cuda {
namespace {

Status absent() {
  return {StatusCode::unsupported, "this build has kernels for the cpu only"};
}

}  // namespace

Status find_device(int /*index*/, DeviceFacts* /*facts*/) {
  return absent();
}

Status check_memory(const char* /*name*/, const void* /*data*/, int /*index*/) {
  return absent();
}

Status quantize(const plan::Source& /*source*/, const Recipe& /*recipe*/,
                const TensorView& /*codes*/, const TensorView& /*scales*/, const Exec& /*exec*/) {
  return absent();
}

Status mla_norm_quantize(const plan::Mla& /*mla*/, const Exec& /*exec*/) {
  return absent();
}

Status store_rows(const plan::Source& /*source*/, const TensorView& /*y*/, const Exec& /*exec*/) {
  return absent();
}

Status dequantize(const TensorView& /*codes*/, const TensorView& /*scales*/,
                  const Recipe& /*recipe*/, const TensorView& /*y*/, const Exec& /*exec*/) {
  return absent();
}

Status relayout_scales(const TensorView& /*codes*/, const TensorView& /*scales_in*/,
                       const Recipe& /*recipe_in*/, const TensorView& /*scales_out*/,
                       const Recipe& /*recipe_out*/, const Exec& /*exec*/) {
  return absent();
}

Status checkpoint_quantize(const TensorView& /*x*/, const Recipe& /*recipe*/,
                           const TensorView& /*codes*/, const TensorView& /*scales*/,
                           const Exec& /*exec*/) {
  return absent();
}

Status checkpoint_absmax(const TensorView& /*x*/, const TensorView& /*amax*/,
                         const Exec& /*exec*/) {
  return absent();
}

Status copy_rows(const linear::Rows& /*rows*/, int /*device*/, const Exec& /*exec*/) {
  return absent();
}

Status zero_rows(const linear::Rows& /*rows*/, int /*device*/, const Exec& /*exec*/) {
  return absent();
}

size_t workspace_bytes(const Recipe& /*recipe*/) {
  return 0;
}

}  // namespace rowscale::cuda
