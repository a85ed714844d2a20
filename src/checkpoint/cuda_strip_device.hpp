#pragma once

#include <memory>

#include "checkpoint/strip_device.hpp"

namespace rowscale::checkpoint {

// The first device that CUDA shows. In a build without CUDA it throws Failure(unsupported).
std::unique_ptr<StripDevice> open_cuda_strip_device();

}  // namespace rowscale::checkpoint
