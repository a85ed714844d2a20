#include "checkpoint/expert_stack.hpp"

#include <algorithm>

namespace rowscale::checkpoint {
namespace {

constexpr std::string_view kGateUp = ".experts.gate_up_proj";
constexpr std::string_view kDown = ".experts.down_proj";
// Only types whose orientation is stated by their modelling code.
constexpr StackFamily kFamilies[] = {
    {"llama4", Orientation::in_out},       {"llama4_text", Orientation::in_out},
    {"qwen3_vl_moe", Orientation::in_out}, {"qwen3_vl_moe_text", Orientation::in_out},
    {"qwen3_5_moe", Orientation::out_in},  {"qwen3_5_moe_text", Orientation::out_in},
    {"gemma4", Orientation::out_in},       {"gemma4_text", Orientation::out_in},
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
  const auto* family =
      std::find_if(std::begin(kFamilies), std::end(kFamilies),
                   [&](const StackFamily& f) { return f.model_type == model_type; });
  if (family == std::end(kFamilies)) return std::nullopt;
  const bool gate_up = tensor.ends_with(kGateUp);
  if (!gate_up && !tensor.ends_with(kDown)) return std::nullopt;
  ExpertStack out{*family,
                  gate_up ? StackPart::gate_up : StackPart::down,
                  tensor.substr(0, tensor.rfind('.')),
                  shape[0],
                  shape[2],
                  shape[1]};
  if (family->orientation == Orientation::in_out) std::swap(out.in, out.out);
  if (gate_up) {
    if (out.out % 2 != 0) return std::nullopt;
    out.out /= 2;
  }
  return out;
}

}  // namespace rowscale::checkpoint
