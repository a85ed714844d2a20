// What a model's configuration says about its linear layers, as the library's linear layer takes
// it.
#pragma once

#include "checkpoint/quantization_config.hpp"
#include "rowscale/linear.hpp"

namespace rowscale::checkpoint {

// Of the layers of one group of compressed-tensors (`group`, which other formats ignore). Dynamic
// activations of a whole tensor count as dynamic: by token they are finer. unsupported: what is no
// FP8 of a tensor, a channel or a block of 128 x 128, and a group that is not there.
Status linear_scheme(const QuantizationConfig& config, size_t group, LinearScheme* scheme);

}  // namespace rowscale::checkpoint
