#include "checkpoint/ignore_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "checkpoint/expert_stack.hpp"
#include "checkpoint/scale_names.hpp"

namespace rowscale::checkpoint {
namespace {

// Readers know experts by the names that they have one by one.
void add_stack(const TensorEntry& e, const Plan& plan, std::vector<std::string>* out) {
  const std::string_view module = module_of(e.name);
  const auto stack = expert_stack(plan.traits.model_type, e.name, e.shape);
  const std::string experts = stack ? stack->experts : std::string(parent_of(module));
  const bool gate_up =
      stack ? stack->part == StackPart::gate_up : last_part(module) == "gate_up_proj";
  if (!stack && !gate_up && last_part(module) != "down_proj") {
    out->emplace_back(module);
    return;
  }
  out->emplace_back(experts);
  for (int64_t i = 0; i < e.shape[0]; ++i) {
    for (const char* projection : {gate_up ? "gate_proj" : "down_proj", "up_proj"}) {
      if (!gate_up && projection == std::string_view("up_proj")) continue;
      out->push_back(fmt::format("{}.{}.{}", experts, i, projection));
    }
  }
}

}  // namespace

std::vector<std::string> ignore_list(const Model& model, const Plan& plan) {
  std::vector<std::string> out;
  bool has_head = false;
  for (const TensorPlan& tensor : plan.tensors) {
    const TensorEntry& e = model.entry(tensor.source);
    if (!belongs_in_ignore(tensor.reason)) continue;
    if (looks_like_stack(e.name, e.shape)) {
      add_stack(e, plan, &out);
    } else if (e.shape.size() == 2 && e.name.ends_with(".weight") &&
               last_part(module_of(e.name)).find("embed") == std::string_view::npos) {
      out.emplace_back(module_of(e.name));
      has_head = has_head || last_part(module_of(e.name)) == "lm_head";
    }
  }
  // A tied head has no tensor, but readers have the module.
  if (plan.traits.tied && !has_head) {
    constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
    for (const TensorPlan& tensor : plan.tensors) {
      std::string_view name = model.entry(tensor.source).name;
      if (!name.ends_with(kEmbedding)) continue;
      name.remove_suffix(kEmbedding.size());
      out.push_back(std::string(name) + "lm_head");
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace rowscale::checkpoint
