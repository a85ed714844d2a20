// A quantization configuration in words, for people.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/quantization_config.hpp"

namespace rowscale::checkpoint {

// One sentence a line, the first one names the format.
std::vector<std::string> in_words(const QuantizationConfig& config);

}  // namespace rowscale::checkpoint
