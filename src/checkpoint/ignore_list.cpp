#include "checkpoint/ignore_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "checkpoint/expert_stack.hpp"

namespace rowscale::checkpoint {
namespace {

// Output heads other than lm_head, told by what lies beside them: `_tied_weights_keys` of
// transformers' models.
struct HeadRow {
  std::string_view beside;  // what the name of a tensor begins with
  std::string_view head;
};

constexpr HeadRow kHeads[] = {
    {"cls.predictions.", "cls.predictions.decoder"},  // BERT and its kin
    {"lm_head.dense.", "lm_head.decoder"},            // RoBERTa and its kin
    {"predictions.dense.", "predictions.decoder"},    // ALBERT
    {"vocab_transform.", "vocab_projector"},          // DistilBERT
    {"generator_predictions.", "generator_lm_head"},  // ELECTRA
    {"model.encoder.conv1.", "proj_out"},             // Whisper
    {"model.embeddings.tok_embeddings.", "decoder"},  // ModernBERT
};

// A table in a whole language model inside another: "language_model.model.embed_tokens", whose head
// is "language_model.lm_head"; not "model.language_model.embed_tokens", whose head is at the top.
constexpr std::string_view kPrefixedTable = ".model.embed_tokens.weight";

class IgnoreList {
 public:
  IgnoreList(const Model& model, const Plan& plan) : model_(model), plan_(plan) {}

  std::vector<std::string> make() {
    for (const TensorPlan& tensor : plan_.tensors) {
      if (is_left(tensor)) add(tensor);
    }
    add_head();
    std::sort(out_.begin(), out_.end());
    out_.erase(std::unique(out_.begin(), out_.end()), out_.end());
    return std::move(out_);
  }

 private:
  // A head that is dropped for being equal to its embedding is a module of the model all the same.
  static bool is_left(const TensorPlan& tensor) {
    return tensor.action == Action::copy || tensor.action == Action::dequantize ||
           tensor.reason == Reason::tied_duplicate;
  }

  void add(const TensorPlan& tensor) {
    const TensorEntry& entry = model_.entry(tensor.source);
    if (tensor.reason != Reason::empty && looks_like_stack(entry.name, entry.shape)) {
      return add_stack(entry);
    }
    if (entry.shape.size() != 2 || !entry.name.ends_with(".weight")) return;
    out_.emplace_back(module_of(entry.name));
    // GPT-NeoX: transformers 5 has the head under another name than the file and transformers 4.
    if (out_.back() == "embed_out") out_.emplace_back("lm_head");
  }

  void add_stack(const TensorEntry& entry) {
    const std::string_view module = module_of(entry.name);
    const auto stack = expert_stack(plan_.traits.model_type, entry.name, entry.shape);
    const std::string experts = stack ? stack->experts : std::string(parent_of(module));
    const bool gate_up =
        stack ? stack->part == StackPart::gate_up : last_part(module) == "gate_up_proj";
    if (!stack && !gate_up && last_part(module) != "down_proj") {
      out_.emplace_back(module);
      return;
    }
    out_.push_back(experts);
    for (int64_t i = 0; i < entry.shape[0]; ++i) {
      for (const char* projection : {gate_up ? "gate_proj" : "down_proj", "up_proj"}) {
        if (!gate_up && projection == std::string_view("up_proj")) continue;
        out_.push_back(fmt::format("{}.{}.{}", experts, i, projection));
      }
    }
  }

  // A tied head has no tensor, but readers have the module. Whether a model is tied is not asked:
  // to be so is the default of many types, whose config.json does not say it, and a name too many
  // is passed over.
  void add_head() {
    const auto any = [&](auto&& holds) {
      return std::any_of(plan_.tensors.begin(), plan_.tensors.end(), holds);
    };
    for (const HeadRow& row : kHeads) {
      if (any([&](const TensorPlan& t) {
            return model_.entry(t.source).name.starts_with(row.beside);
          })) {
        out_.emplace_back(row.head);
        return;
      }
    }
    if (any([](const TensorPlan& t) { return is_head(t.reason); })) return;
    if (!any([](const TensorPlan& t) { return t.reason == Reason::embedding; })) return;
    bool has_prefix = false;
    for (const TensorPlan& tensor : plan_.tensors) {
      std::string_view name = model_.entry(tensor.source).name;
      if (tensor.reason != Reason::embedding || !name.ends_with(kPrefixedTable)) continue;
      name.remove_suffix(kPrefixedTable.size());
      out_.push_back(std::string(name) + ".lm_head");
      has_prefix = true;
    }
    if (!has_prefix) out_.emplace_back("lm_head");
  }

  static bool is_head(Reason reason) {
    return reason == Reason::output_head || reason == Reason::tied_duplicate;
  }

  const Model& model_;
  const Plan& plan_;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> ignore_list(const Model& model, const Plan& plan) {
  return IgnoreList(model, plan).make();
}

}  // namespace rowscale::checkpoint
