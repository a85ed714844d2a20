// Of a build without CUDA.
#include "checkpoint/cuda_strip_device.hpp"
#include "checkpoint/failure.hpp"

namespace rowscale::checkpoint {

std::unique_ptr<StripDevice> open_cuda_strip_device() {
  throw Failure(FailureKind::unsupported, "this build has kernels for the cpu only");
}

}  // namespace rowscale::checkpoint
