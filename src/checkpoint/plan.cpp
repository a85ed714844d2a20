#include "checkpoint/plan.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <unordered_map>

#include "checkpoint/expert_stack.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/fused_group.hpp"
#include "checkpoint/ignore_list.hpp"
#include "checkpoint/json_text.hpp"
#include "checkpoint/patterns.hpp"
#include "checkpoint/plan_warnings.hpp"

namespace rowscale::checkpoint {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Of published models none has more than 2048; names of experts are made one by one.
constexpr int64_t kMostExperts = 4096;

bool is_written_as_fp8(Action action) {
  return action == Action::quantize || action == Action::requantize || action == Action::pass;
}

class Planner {
 public:
  Planner(Model* model, const PlanRequest& request)
      : model_(*model), patterns_(request.ignore, "--ignore") {
    plan_.request = request;
    plan_.traits = traits_of(model_.config());
    plan_.source_format = model_.quantization().format;
  }

  Plan make() {
    check_request();
    check_model();
    list_tensors();
    for (TensorPlan& tensor : plan_.tensors) decide_one(&tensor);
    patterns_.require_all_used();
    settle_groups();
    refuse_names_twice();
    if (plan_.request.scheme == Scheme::fp8_tensor) number_scale_groups();
    plan_.ignore = ignore_list(model_, plan_);
    add_up();
    add_warnings(model_, &plan_);
    return std::move(plan_);
  }

 private:
  bool from_fp8() const { return plan_.source_format == SourceFormat::block_fp8; }
  const TensorEntry& entry(const TensorPlan& tensor) const { return model_.entry(tensor.source); }

  void check_request() const {
    if (is_utf8(plan_.request.base_model)) return;
    refuse_usage("--base-model: expected UTF-8, which rowscale.json needs, got {}",
                 json_string(plan_.request.base_model));
  }

  void check_model() {
    if (!model_.is_folder()) {
      refuse_usage("{}: expected a folder with config.json, got a file", model_.path());
    }
    if (!model_.has_config()) {
      refuse_input("{}: expected a config.json in it, got none: it tells readers what the model is",
                   model_.path());
    }
    const QuantizationConfig& quantization = model_.quantization();
    if (quantization.format == SourceFormat::fp8_per_tensor) {
      refuse_input(
          "{}: already quantized: {}. Block FP8 has a weight_block_size in its "
          "quantization_config, this has none",
          model_.path(), to_string(quantization.format));
    }
    if (quantization.format != SourceFormat::plain && !from_fp8()) {
      refuse_input("{}: already quantized: {}{}. Convert the model that it was made from",
                   model_.path(), to_string(quantization.format),
                   quantization.format == SourceFormat::other
                       ? " (" + shown(quantization.method) + ")"
                       : "");
    }
    if (from_fp8()) {
      plan_.block_rows = quantization.block_rows;
      plan_.block_columns = quantization.block_columns;
      if (plan_.request.scheme != Scheme::fp8_block) {
        plan_.block_rows = plan_.block_columns = kBlock;
      }
    }
  }

  void list_tensors() {
    plan_.tensors.reserve(model_.tensors().size() + model_.stale().size());
    for (const Place place : model_.tensors()) plan_.tensors.push_back({place});
    for (const Place place : model_.stale()) {
      plan_.tensors.push_back({place, Action::drop, Reason::stale});
    }
    std::sort(plan_.tensors.begin(), plan_.tensors.end(),
              [](const TensorPlan& a, const TensorPlan& b) {
                return std::pair(a.source.shard, a.source.index) <
                       std::pair(b.source.shard, b.source.index);
              });
    const auto shards = static_cast<uint32_t>(model_.shards().size());
    plan_.shard_begin.assign(shards + 1, 0);
    for (const TensorPlan& tensor : plan_.tensors) ++plan_.shard_begin[tensor.source.shard + 1];
    std::partial_sum(plan_.shard_begin.begin(), plan_.shard_begin.end(), plan_.shard_begin.begin());
  }

  void decide_one(TensorPlan* tensor) {
    if (tensor->reason == Reason::stale) return;
    const TensorEntry& e = entry(*tensor);
    plan_.has_kv_scales = plan_.has_kv_scales || is_cache_scale_name(e.name);
    if (e.type == StoredType::f8_e4m3 || is_scale_name(model_, e.name)) {
      decide_fp8(tensor);
      return;
    }
    refuse_other_narrow_types(e);
    tensor->reason = decide(plan_.traits, e.name, e.type, e.shape);
    const bool is_stack = looks_like_stack(e.name, e.shape) && tensor->reason != Reason::empty;
    if (is_stack && e.shape[0] > kMostExperts) {
      refuse_input("tensor {}: expected at most {} experts, got {}", shown(e.name), kMostExperts,
                   e.shape[0]);
    }
    const bool is_asked_for =
        is_stack ? matches_stack(e)
                 : e.name.ends_with(".weight") && patterns_.match(module_of(e.name));
    if (tensor->reason == Reason::linear_weight && is_stack &&
        !expert_stack(plan_.traits.model_type, e.name, e.shape)) {
      tensor->reason = Reason::unknown_stack;
    }
    if (is_asked_for &&
        (tensor->reason == Reason::linear_weight || tensor->reason == Reason::unknown_stack)) {
      tensor->reason = Reason::requested;
    }
    if (tensor->reason == Reason::linear_weight && from_fp8()) {
      tensor->reason = Reason::source_left_it;
    }
    if (tensor->reason == Reason::linear_weight) tensor->action = Action::quantize;
    if (tensor->reason == Reason::output_head && is_tied_duplicate(*tensor)) {
      tensor->reason = Reason::tied_duplicate;
      tensor->action = Action::drop;
    }
  }

  // Types of 8 bits and fewer that are no weights of a format known here, and no bytes to be copied
  // unseen: a reader would take them for weights in 16 bits, or not at all.
  static void refuse_other_narrow_types(const TensorEntry& e) {
    switch (e.type) {
      case StoredType::f4:
      case StoredType::f6_e2m3:
      case StoredType::f6_e3m2:
      case StoredType::f8_e5m2:
      case StoredType::f8_e8m0:
      case StoredType::f8_e4m3fnuz:
      case StoredType::f8_e5m2fnuz:
        refuse_input(
            "tensor {}: expected BF16, F16, F32 or block FP8 (F8_E4M3 with its scales), got {}",
            shown(e.name), to_string(e.type));
      default:
        return;
    }
  }

  bool matches_stack(const TensorEntry& e) {
    if (patterns_.empty()) return false;
    const auto stack = expert_stack(plan_.traits.model_type, e.name, e.shape);
    const std::string experts = stack ? stack->experts : std::string(parent_of(e.name));
    bool any = patterns_.match(module_of(e.name));
    any = patterns_.match(experts) || any;
    if (!stack) return any;
    const std::vector<WeightPart> parts = weight_parts(plan_, e);
    const auto fitting = std::count_if(parts.begin(), parts.end(), [&](const WeightPart& part) {
      return patterns_.match(part.module);
    });
    if (fitting != 0 && fitting != std::ssize(parts)) {
      refuse_usage(
          "--ignore: fits {} of the {} experts' weights in {}, which readers merge: take all "
          "or none",
          fitting, parts.size(), shown(e.name));
    }
    return any || fitting != 0;
  }

  void decide_fp8(TensorPlan* tensor) {
    const TensorEntry& e = entry(*tensor);
    if (e.type != StoredType::f8_e4m3) {
      decide_scale(tensor);
      return;
    }
    if (!from_fp8()) {
      refuse_input(
          "tensor {}: F8_E4M3 in a model without a quantization_config: expected the size of its "
          "blocks in config.json (weight_block_size), which is never guessed",
          shown(e.name));
    }
    if (!e.name.ends_with(".weight") || e.shape.size() != 2) {
      refuse_input("tensor {}: expected FP8 only as a weight of two dimensions, got F8_E4M3 [{}]",
                   shown(e.name), fmt::join(e.shape, ", "));
    }
    const auto scale = find_scale(model_, e.name);
    if (!scale) {
      refuse_input("tensor {}: expected its scales in {}_scale_inv, got none in any shard",
                   shown(e.name), e.name);
    }
    check_scale(e, model_.entry(scale->place));
    if (patterns_.match(module_of(e.name))) {
      tensor->reason = Reason::requested;
      tensor->action = Action::dequantize;
      return;
    }
    tensor->reason = Reason::already_fp8;
    tensor->action = plan_.request.scheme == Scheme::fp8_block ? Action::pass : Action::requantize;
  }

  void check_scale(const TensorEntry& weight, const TensorEntry& scale) const {
    const QuantizationConfig& q = model_.quantization();
    const int64_t rows = ceil_div(weight.shape[0], q.block_rows);
    const int64_t columns = ceil_div(weight.shape[1], q.block_columns);
    if (scale.shape.size() != 2 || scale.shape[0] != rows || scale.shape[1] != columns) {
      refuse_input("tensor {}: expected [{}, {}] scales for a weight of [{}, {}], got [{}]",
                   shown(scale.name), rows, columns, weight.shape[0], weight.shape[1],
                   fmt::join(scale.shape, ", "));
    }
    const bool is_ue8m0 = scale.type == StoredType::f8_e8m0 ||
                          (scale.type == StoredType::u8 && q.scale_format == "ue8m0");
    if (!is_ue8m0 && scale.type != StoredType::f32 && scale.type != StoredType::bf16) {
      refuse_input("tensor {}: expected scales in F32, BF16 or UE8M0, got {}", shown(scale.name),
                   to_string(scale.type));
    }
  }

  void decide_scale(TensorPlan* tensor) {
    const TensorEntry& e = entry(*tensor);
    const std::string weight = weight_of_scale(e.name);
    const auto place = model_.find(weight);
    if (!place) {
      refuse_input("tensor {}: scales of {}, which is not there", shown(e.name), shown(weight));
    }
    if (!from_fp8() || model_.entry(*place).type != StoredType::f8_e4m3) {
      refuse_input(
          "tensor {}: scales of {}, which is {}: already quantized in a way that "
          "config.json does not tell",
          shown(e.name), shown(weight), to_string(model_.entry(*place).type));
    }
    tensor->reason = Reason::scale_of_weight;
    const bool passes = plan_.request.scheme == Scheme::fp8_block;
    const bool is_left = patterns_.match(module_of(weight));  // dequantized
    tensor->action = passes && !is_left ? Action::pass_scale : Action::consume;
  }

  // A tied model that stores its head too: readers of tied models expect none.
  bool is_tied_duplicate(const TensorPlan& tensor) {
    const TensorEntry& head = entry(tensor);
    constexpr std::string_view kHead = "lm_head.weight";
    if (!plan_.traits.tied || !head.name.ends_with(kHead)) return false;
    const std::string prefix(head.name.substr(0, head.name.size() - kHead.size()));
    for (const char* table :
         {"model.embed_tokens", "model.language_model.embed_tokens", "model.decoder.embed_tokens",
          "model.shared", "shared", "transformer.wte", "transformer.word_embeddings"}) {
      const auto place = model_.find(prefix + table + ".weight");
      if (!place) continue;
      const TensorEntry& embedding = model_.entry(*place);
      if (embedding.type != head.type || embedding.bytes() != head.bytes()) return false;
      return same_bytes(tensor.source, *place);
    }
    return false;
  }

  bool same_bytes(Place a, Place b) {
    constexpr int64_t kPiece = 1 << 20;
    require_readable(model_.shards()[a.shard].acquire());
    require_readable(model_.shards()[b.shard].acquire());
    std::vector<char> left(kPiece);
    std::vector<char> right(kPiece);
    const int64_t bytes = model_.entry(a).bytes();
    bool same = true;
    for (int64_t at = 0; at < bytes && same; at += kPiece) {
      const int64_t count = std::min(kPiece, bytes - at);
      require_readable(
          model_.shards()[a.shard].read(model_.entry(a).begin + at, count, left.data()));
      require_readable(
          model_.shards()[b.shard].read(model_.entry(b).begin + at, count, right.data()));
      same = std::memcmp(left.data(), right.data(), static_cast<size_t>(count)) == 0;
    }
    model_.shards()[a.shard].release();
    model_.shards()[b.shard].release();
    return same;
  }

  // The group of a tensor that could be quantized; empty otherwise.
  std::string group_key(const TensorPlan& tensor) const {
    const TensorEntry& e = entry(tensor);
    if (const auto stack = expert_stack(plan_.traits.model_type, e.name, e.shape)) {
      return stack->experts + "#experts";
    }
    if (e.shape.size() != 2 || !e.name.ends_with(".weight")) return {};
    return decision_group(module_of(e.name));
  }

  struct GroupState {
    const TensorPlan* quantized = nullptr;
    const TensorPlan* left = nullptr;
    const TensorPlan* requested = nullptr;
  };

  void settle_groups() {
    std::unordered_map<std::string, GroupState> groups;
    for (const TensorPlan& tensor : plan_.tensors) {
      if (tensor.action == Action::drop) continue;
      const std::string key = group_key(tensor);
      if (key.empty()) continue;
      GroupState& group = groups[key];
      const TensorPlan*& slot = is_written_as_fp8(tensor.action)     ? group.quantized
                                : tensor.reason == Reason::requested ? group.requested
                                                                     : group.left;
      if (slot == nullptr) slot = &tensor;
    }
    for (const auto& [key, group] : groups) {
      if (group.quantized == nullptr || group.requested == nullptr) continue;
      const std::string_view requested = module_of(entry(*group.requested).name);
      refuse_usage(
          "--ignore {}: fits {}, but not {}, which readers merge with it: take both or none",
          shown(patterns_.fitting(requested)), shown(requested),
          shown(module_of(entry(*group.quantized).name)));
    }
    for (TensorPlan& tensor : plan_.tensors) {
      if (!is_written_as_fp8(tensor.action)) continue;
      const auto at = groups.find(group_key(tensor));
      if (at == groups.end() || at->second.left == nullptr) continue;
      if (tensor.action != Action::quantize) {
        refuse_input(
            "tensor {}: is FP8, but {} is not, which readers merge with it: one weight has one "
            "type",
            shown(entry(tensor).name), shown(entry(*at->second.left).name));
      }
      tensor.action = Action::copy;
      tensor.reason = Reason::fused_with_left;
    }
  }

  // Experts taken out of a stack may meet experts that are there one by one.
  void refuse_names_twice() const {
    for (const TensorPlan& tensor : plan_.tensors) {
      if (tensor.action != Action::quantize || entry(tensor).shape.size() == 2) continue;
      for (const OutputTensor& out : outputs_of(plan_, model_, tensor)) {
        if (!model_.find(out.name)) continue;
        refuse_input("tensor {}: holds {}, which is there as a tensor of its own too",
                     shown(entry(tensor).name), shown(out.name));
      }
    }
  }

  void number_scale_groups() {
    std::unordered_map<std::string, uint32_t> numbers;
    for (uint32_t i = 0; i < plan_.tensors.size(); ++i) {
      TensorPlan& tensor = plan_.tensors[i];
      if (tensor.action != Action::quantize && tensor.action != Action::requantize) continue;
      if (entry(tensor).shape.size() != 2) continue;  // a stack's parts share among themselves
      const std::string key = scale_group(module_of(entry(tensor).name));
      if (key.empty()) continue;
      const auto next = static_cast<uint32_t>(plan_.groups.size());
      const auto [at, is_new] = numbers.try_emplace(key, next);
      if (is_new) plan_.groups.emplace_back();
      tensor.group = at->second;
      plan_.groups[tensor.group].push_back(i);
    }
  }

  void add_up() {
    for (const TensorPlan& tensor : plan_.tensors) {
      const TensorEntry& e = entry(tensor);
      ReasonTotal& total = plan_.by_reason[static_cast<size_t>(tensor.reason)];
      ++total.tensors;
      total.bytes += e.bytes();
      if (tensor.reason != Reason::stale) plan_.source_bytes += e.bytes();
      if (is_written_as_fp8(tensor.action)) plan_.quantized_bytes += e.bytes();
      if (tensor.reason == Reason::unknown_stack) plan_.unknown_stack_bytes += e.bytes();
      for (const OutputTensor& out : outputs_of(plan_, model_, tensor)) {
        plan_.output_bytes += out.bytes;
      }
    }
    for (const SideFile& file : model_.side_files()) {
      if (file.fate == Fate::copied) plan_.side_bytes += file.bytes;
    }
    if (plan_.quantized_bytes == 0) refuse_nothing();
  }

  [[noreturn]] void refuse_nothing() const {
    const auto most = std::max_element(
        plan_.by_reason.begin(), plan_.by_reason.end(),
        [](const ReasonTotal& a, const ReasonTotal& b) { return a.bytes < b.bytes; });
    if (most->tensors == 0) refuse_input("{}: nothing to quantize: no tensors", model_.path());
    refuse_input("{}: nothing to quantize: of {} tensors none is a linear weight; most bytes: {}",
                 model_.path(), plan_.tensors.size(),
                 to_string(static_cast<Reason>(most - plan_.by_reason.begin())));
  }

  Model& model_;
  Patterns patterns_;
  Plan plan_;
};

}  // namespace

const char* to_string(Action action) {
  switch (action) {
    case Action::copy:
      return "copy";
    case Action::quantize:
      return "quantize";
    case Action::requantize:
      return "requantize";
    case Action::dequantize:
      return "dequantize";
    case Action::pass:
      return "pass through";
    case Action::pass_scale:
      return "rename";
    case Action::consume:
      return "used";
    case Action::drop:
      return "drop";
  }
  return "";
}

Plan make_plan(Model* model, const PlanRequest& request) {
  return Planner(model, request).make();
}

}  // namespace rowscale::checkpoint
