// What a conversion makes, by the names that users give.
#pragma once

#include <string_view>

namespace rowscale::checkpoint {

enum class Scheme {
  fp8_dynamic,  // a scale an output channel; activations by token, at run time
  fp8_block,    // a scale a block of 128x128; activations by groups of 128, at run time
  fp8_tensor,   // a scale a weight, shared in a fused group; activations by token, at run time
};

enum class Numerics {
  compressed_tensors,  // the bytes of llm-compressor: docs/numerics.md section 9
  precise,             // scales in fp32, one rounding
};

inline constexpr int kBlock = 128;  // rows and columns of fp8-block

constexpr std::string_view kSchemeNames[] = {"fp8-dynamic", "fp8-block", "fp8-tensor"};
constexpr std::string_view kNumericsNames[] = {"compressed-tensors", "precise"};

constexpr std::string_view to_string(Scheme scheme) {
  return kSchemeNames[static_cast<int>(scheme)];
}
constexpr std::string_view to_string(Numerics numerics) {
  return kNumericsNames[static_cast<int>(numerics)];
}

}  // namespace rowscale::checkpoint
