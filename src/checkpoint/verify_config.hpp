// Whether the readers of compressed-tensors models understand a configuration.
#pragma once

#include <nlohmann/json.hpp>

#include "checkpoint/check.hpp"

namespace rowscale::checkpoint {

// `config`: config.json. Its quantization_config holds only fields that compressed-tensors has had
// since 0.11.0 and that older readers, which forbid others, accept; and it describes FP8 weights in
// a way that vLLM has a kernel for.
Check verify_config(const nlohmann::json& config);

}  // namespace rowscale::checkpoint
