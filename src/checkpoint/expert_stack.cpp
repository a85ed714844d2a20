#include "checkpoint/expert_stack.hpp"

#include <algorithm>

#include "checkpoint/decision.hpp"

namespace rowscale::checkpoint {
namespace {

// Only types whose orientation is stated by their modelling code. Stacks with biases (gpt-oss) are
// not here: no reader takes them apart.
constexpr StackFamily kFamilies[] = {
    {"llama4", Orientation::in_out, GateUp::joined},
    {"llama4_text", Orientation::in_out, GateUp::joined},
    {"qwen3_vl_moe", Orientation::in_out, GateUp::joined},
    {"qwen3_vl_moe_text", Orientation::in_out, GateUp::joined},
    {"qwen3_5_moe", Orientation::out_in, GateUp::joined},
    {"qwen3_5_moe_text", Orientation::out_in, GateUp::joined},
    {"gemma4", Orientation::out_in, GateUp::joined},
    {"gemma4_text", Orientation::out_in, GateUp::joined},
};

bool is_in(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

}  // namespace

bool looks_like_stack(std::string_view tensor, std::span<const int64_t> shape) {
  if (shape.size() != 3) return false;
  return is_in(tensor, "experts") || is_in(tensor, "input_linear") ||
         is_in(tensor, "output_linear");
}

std::optional<ExpertStack> expert_stack(std::string_view model_type, std::string_view tensor,
                                        std::span<const int64_t> shape) {
  if (shape.size() != 3) return std::nullopt;
  const std::string_view experts = parent_of(tensor);
  if (last_part(experts) != "experts") return std::nullopt;
  const bool gate_up = last_part(tensor) == "gate_up_proj";
  if (!gate_up && last_part(tensor) != "down_proj") return std::nullopt;
  const auto* family =
      std::find_if(std::begin(kFamilies), std::end(kFamilies),
                   [&](const StackFamily& f) { return f.model_type == model_type; });
  if (family == std::end(kFamilies)) return std::nullopt;
  ExpertStack out{*family,  gate_up ? StackPart::gate_up : StackPart::down,
                  experts,  shape[0],
                  shape[2], shape[1]};
  if (family->orientation == Orientation::in_out) std::swap(out.in, out.out);
  if (gate_up) {
    if (out.out % 2 != 0) return std::nullopt;
    out.out /= 2;
  }
  return out;
}

}  // namespace rowscale::checkpoint
