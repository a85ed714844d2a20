// Experts that lie in one tensor, by model type: which way round. The shape cannot tell: a square
// matrix looks the same either way. Gate and up are joined, all of gate before all of up.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rowscale::checkpoint {

enum class Orientation {
  out_in,  // [experts, out, in]
  in_out,  // [experts, in, out]
};

struct StackFamily {
  std::string_view model_type;
  std::string_view gate_up_name;  // how the tensors' names end
  std::string_view down_name;
  Orientation orientation;
};

// Which parts of an expert a stack holds.
enum class StackPart { gate_up, down };

struct ExpertStack {
  StackFamily family;
  StackPart part;
  std::string experts;  // "model.layers.0.mlp.experts": what the written names begin with
  int64_t count = 0;
  int64_t in = 0;
  int64_t out = 0;  // of one projection: gate and up have as many each
};

// Empty: no stack of a known family, or not of three dimensions.
std::optional<ExpertStack> expert_stack(std::string_view model_type, std::string_view tensor,
                                        std::span<const int64_t> shape);

// Whether a tensor looks like experts in one tensor, of whatever family.
bool looks_like_stack(std::string_view tensor, std::span<const int64_t> shape);

}  // namespace rowscale::checkpoint
