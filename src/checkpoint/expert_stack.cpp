#include "checkpoint/expert_stack.hpp"

#include <algorithm>

namespace rowscale::checkpoint {
namespace {

constexpr std::string_view kGateUp = ".experts.gate_up_proj";
constexpr std::string_view kDown = ".experts.down_proj";
constexpr std::string_view kExperts = ".experts";

// Only types whose orientation is stated by their modelling code, and whose experts a reader takes
// one by one. Not gpt_oss: vLLM passes over names of single experts without a word, and its kernels
// want gate and up interleaved and with their biases.
constexpr StackFamily kFamilies[] = {
    {"llama4", kGateUp, kDown, Orientation::in_out},
    {"llama4_text", kGateUp, kDown, Orientation::in_out},
    {"qwen3_vl_moe", kGateUp, kDown, Orientation::in_out},
    {"qwen3_vl_moe_text", kGateUp, kDown, Orientation::in_out},
    {"qwen3_5_moe", kGateUp, kDown, Orientation::out_in},
    {"qwen3_5_moe_text", kGateUp, kDown, Orientation::out_in},
    {"gemma4", kGateUp, kDown, Orientation::out_in},
    {"gemma4_text", kGateUp, kDown, Orientation::out_in},
    {"granitemoe", ".input_linear.weight", ".output_linear.weight", Orientation::out_in},
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
  const bool gate_up = tensor.ends_with(family->gate_up_name);
  if (!gate_up && !tensor.ends_with(family->down_name)) return std::nullopt;
  tensor.remove_suffix(gate_up ? family->gate_up_name.size() : family->down_name.size());
  ExpertStack out{*family,
                  gate_up ? StackPart::gate_up : StackPart::down,
                  std::string(tensor) + std::string(kExperts),
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
