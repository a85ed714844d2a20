#include "checkpoint/plan_warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "checkpoint/fused_group.hpp"

namespace rowscale::checkpoint {
namespace {

enum class Parallel { columns, rows, replicated };  // how readers cut a weight over GPUs

Parallel parallel_of(std::string_view module) {
  const std::string_view last = last_part(module);
  for (const std::string_view name :
       {"q_proj", "k_proj", "v_proj", "qkv_proj", "gate_proj", "up_proj", "gate_up_proj", "w1",
        "w3", "q_b_proj", "kv_b_proj", "query_key_value", "c_fc", "fc1", "dense_h_to_4h"}) {
    if (last == name) return Parallel::columns;
  }
  for (const std::string_view name :
       {"o_proj", "down_proj", "w2", "out_proj", "c_proj", "fc2", "dense_4h_to_h"}) {
    if (last == name) return Parallel::rows;
  }
  return Parallel::replicated;
}

struct Share {
  int64_t size;   // of the side that is cut
  int64_t share;  // of one GPU; 0: it does not divide at all
};

std::optional<Share> share_of(const Plan& plan, const WeightPart& part, int64_t gpus) {
  const Parallel parallel = parallel_of(part.module);
  if (parallel == Parallel::replicated) return std::nullopt;
  const int64_t size = parallel == Parallel::columns ? part.rows : part.columns;
  int64_t share = size % gpus == 0 ? size / gpus : 0;
  const std::string_view last = last_part(part.module);
  if ((last == "k_proj" || last == "v_proj") && plan.traits.kv_heads > 0) {
    share = std::max(share, size / plan.traits.kv_heads);  // fewer heads than GPUs are repeated
  }
  return Share{size, share};
}

// Whether another member lies behind it once readers have merged the group.
bool is_followed_in_its_group(std::string_view module) {
  const std::string_view last = last_part(module);
  return !scale_group(module).empty() && last != "v_proj" && last != "value" && last != "wv" &&
         last != "up_proj" && last != "w3";
}

void warn_of_blocks(const Model& model, Plan* plan) {
  for (const int64_t gpus : {1, 2, 4, 8}) {
    int64_t count = 0;
    std::string example;
    for (const TensorPlan& tensor : plan->tensors) {
      if (tensor.action != Action::quantize && tensor.action != Action::pass) continue;
      for (const WeightPart& part : weight_parts(*plan, model.entry(tensor.source))) {
        const auto share = share_of(*plan, part, gpus);
        const int64_t block =
            parallel_of(part.module) == Parallel::columns ? plan->block_rows : plan->block_columns;
        if (!share || (share->share != 0 && share->share % block == 0)) continue;
        // On one GPU only merged weights meet at a border inside a block.
        if (gpus == 1 && !is_followed_in_its_group(part.module)) continue;
        if (count++ == 0) {
          example = fmt::format("{}: {} / {} is no multiple of {}", part.module, share->size, gpus,
                                block);
        }
      }
    }
    if (count == 0) continue;
    plan->warnings.push_back(
        fmt::format("fp8-block under tensor parallel {}: blocks of {} weights do not divide ({}); "
                    "vLLM refuses that",
                    gpus, count, example));
  }
}

// vLLM's method for experts takes a scale a channel or a block, and asserts that there is no other.
void warn_of_tensor_experts(const Model& model, Plan* plan) {
  int64_t count = 0;
  std::string example;
  for (const TensorPlan& tensor : plan->tensors) {
    if (tensor.action != Action::quantize && tensor.action != Action::requantize) continue;
    for (const WeightPart& part : weight_parts(*plan, model.entry(tensor.source))) {
      if (part.module.find(".experts.") == std::string::npos) continue;
      if (count++ == 0) example = part.module;
    }
  }
  if (count == 0) return;
  plan->warnings.push_back(
      fmt::format("fp8-tensor: {} weights are experts ({}); vLLM takes experts with a scale a "
                  "channel or a block, and refuses this model; fp8-dynamic is for it",
                  count, example));
}

void warn_of_odd_sizes(const Model& model, Plan* plan) {
  constexpr int64_t kMultiple = 16;  // of FP8 matrix multiplication on GPUs
  int64_t count = 0;
  std::string example;
  for (const TensorPlan& tensor : plan->tensors) {
    const TensorEntry& entry = model.entry(tensor.source);
    if ((tensor.action != Action::quantize && tensor.action != Action::requantize) ||
        entry.shape.size() != 2 ||
        (entry.shape[0] % kMultiple == 0 && entry.shape[1] % kMultiple == 0)) {
      continue;
    }
    if (count++ == 0) {
      example = fmt::format("{} [{}, {}]", module_of(entry.name), entry.shape[0], entry.shape[1]);
    }
  }
  if (count == 0) return;
  plan->warnings.push_back(
      fmt::format("{} weights have a size that is no multiple of {} ({}): GPU kernels may refuse "
                  "them; --ignore leaves them in 16 bits",
                  count, kMultiple, example));
}

void warn_of_stacks(const Model& model, Plan* plan) {
  if (plan->unknown_stack_bytes == 0) return;
  constexpr size_t kNamed = 4;
  std::vector<std::string> names;
  size_t count = 0;
  for (const TensorPlan& tensor : plan->tensors) {
    if (tensor.reason != Reason::unknown_stack) continue;
    if (count++ < kNamed) names.push_back(shown(model.entry(tensor.source).name));
  }
  plan->warnings.push_back(fmt::format(
      "{:.1f} % of the weight bytes are experts stacked in one tensor, which is not taken "
      "apart for model type {}: left alone: {}{}",
      100.0 * static_cast<double>(plan->unknown_stack_bytes) /
          static_cast<double>(plan->source_bytes),
      shown(plan->traits.model_type), fmt::join(names, ", "),
      count > kNamed ? fmt::format(" and {} more", count - kNamed) : ""));
}

}  // namespace

void add_warnings(const Model& model, Plan* plan) {
  warn_of_stacks(model, plan);
  if (plan->request.scheme == Scheme::fp8_block) {
    warn_of_blocks(model, plan);
    if (plan->block_rows != kBlock || plan->block_columns != kBlock) {
      plan->warnings.push_back(fmt::format(
          "the source has blocks of {}x{}, which are kept; vLLM has kernels for 128x128",
          plan->block_rows, plan->block_columns));
    }
  }
  if (plan->request.scheme == Scheme::fp8_tensor) warn_of_tensor_experts(model, plan);
  warn_of_odd_sizes(model, plan);
  if (!model.stale().empty()) {
    plan->warnings.push_back(fmt::format(
        "{} tensors lie in a file that the index does not assign them to and are dropped",
        model.stale().size()));
  }
}

}  // namespace rowscale::checkpoint
