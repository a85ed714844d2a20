#include "checkpoint/decision.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "checkpoint/expert_stack.hpp"
#include "checkpoint/language_config.hpp"
#include "checkpoint/scale_names.hpp"

namespace rowscale::checkpoint {
namespace {

using nlohmann::json;

struct ReasonRow {
  const char* code;
  const char* text;
};

// In the order of Reason.
constexpr ReasonRow kReasonRows[] = {
    {"linear_weight", "linear weight"},
    {"requested", "left alone by --ignore"},
    {"type", "no floating-point weight"},
    {"no_weight", "no weight of a module"},
    {"one_dimensional", "one-dimensional"},
    {"empty", "no elements"},
    {"many_dimensional", "more than two dimensions (a convolution)"},
    {"unknown_stack", "stacked experts, which are not taken apart for this model type"},
    {"input_first", "stored as [in, out]: no linear layer to readers"},
    {"output_head", "output head"},
    {"embedding", "embedding"},
    {"norm", "norm"},
    {"router", "router"},
    {"vision", "vision tower"},
    {"audio", "audio tower"},
    {"projector", "projector between modalities"},
    {"state_space", "state space or linear attention"},
    {"indexer", "indexer of sparse attention"},
    {"multi_token", "multi-token prediction"},
    {"source_left_it", "left in 16 bits by the source"},
    {"fused_with_left", "fused with a weight that is left alone"},
    {"already_fp8", "FP8 in the source"},
    {"scale_of_weight", "scales of an FP8 weight"},
    {"tied_duplicate", "equal to the embedding it is tied to"},
    {"stale", "the index assigns the name to another file"},
};
static_assert(std::size(kReasonRows) == kReasons);

// How a row of the table looks at a module's name.
enum class Where {
  last_is,        // the last part of the name equals it
  last_contains,  // the last part contains it
  any_is,         // any part equals it
  any_begins,     // any part begins with it
};

struct NameRow {
  Where where;
  std::string_view word;
  Reason reason;
};

// The first row that fits counts: towers before what they are made of.
constexpr NameRow kNames[] = {
    // Towers of other modalities.
    {Where::any_begins, "vision", Reason::vision},
    {Where::any_begins, "visual", Reason::vision},
    {Where::any_is, "embed_vision", Reason::vision},
    {Where::any_is, "image_encoder", Reason::vision},
    {Where::any_is, "img_processor", Reason::vision},
    {Where::any_is, "vit", Reason::vision},
    {Where::any_is, "vpm", Reason::vision},
    {Where::any_is, "sam_model", Reason::vision},
    {Where::any_begins, "audio", Reason::audio},
    {Where::any_is, "embed_audio", Reason::audio},
    {Where::any_begins, "speech", Reason::audio},
    {Where::any_is, "apm", Reason::audio},
    {Where::any_is, "code2wav", Reason::audio},
    {Where::any_is, "token2wav", Reason::audio},
    {Where::any_is, "multi_modal_projector", Reason::projector},
    {Where::any_is, "mm_projector", Reason::projector},
    {Where::any_is, "img_projection", Reason::projector},
    {Where::any_is, "language_projection", Reason::projector},
    {Where::any_is, "connector", Reason::projector},
    {Where::any_is, "aligner", Reason::projector},
    {Where::any_is, "projector", Reason::projector},
    {Where::any_is, "resampler", Reason::projector},
    {Where::any_is, "qformer", Reason::projector},
    {Where::any_is, "mlp1", Reason::projector},  // InternVL
    // Multi-token prediction, where it has a name of its own; by layer number: decide().
    {Where::any_begins, "mtp", Reason::multi_token},  // mtp.layers, mtp_layers, mtp_block
    // Heads.
    {Where::any_is, "lm_head", Reason::output_head},
    {Where::last_is, "embed_out", Reason::output_head},
    {Where::last_is, "output_layer", Reason::output_head},
    {Where::last_is, "proj_out", Reason::output_head},
    {Where::last_is, "score", Reason::output_head},
    {Where::last_is, "classifier", Reason::output_head},
    {Where::last_is, "qa_outputs", Reason::output_head},
    {Where::last_is, "v_head", Reason::output_head},
    {Where::any_is, "cls", Reason::output_head},
    {Where::any_is, "pooler", Reason::output_head},
    // Embeddings.
    {Where::last_contains, "embed", Reason::embedding},
    {Where::last_is, "wte", Reason::embedding},
    {Where::last_is, "wpe", Reason::embedding},
    {Where::last_is, "vte", Reason::embedding},     // Ovis
    {Where::last_is, "shared", Reason::embedding},  // T5
    {Where::last_is, "relative_attention_bias", Reason::embedding},
    // Norms.
    {Where::last_contains, "norm", Reason::norm},
    {Where::last_contains, "Norm", Reason::norm},
    {Where::last_is, "ln_f", Reason::norm},
    {Where::last_is, "ln_1", Reason::norm},
    {Where::last_is, "ln_2", Reason::norm},
    // Routers: their errors choose other experts.
    {Where::any_is, "gate", Reason::router},  // with parts: gate.wg of Hunyuan
    {Where::last_is, "shared_expert_gate", Reason::router},
    {Where::any_is, "router", Reason::router},
    // Recurrences, whose errors add up over the sequence.
    {Where::any_is, "linear_attn", Reason::state_space},
    {Where::last_contains, "conv1d", Reason::state_space},
    {Where::last_is, "dt_proj", Reason::state_space},
    {Where::last_is, "x_proj", Reason::state_space},
    {Where::last_is, "A_log", Reason::state_space},
    {Where::any_is, "indexer", Reason::indexer},
    {Where::any_is, "compressor", Reason::indexer},
};

// Model types whose layers of these names keep their weights as [in, out] (transformers' Conv1D).
constexpr std::string_view kInputFirstTypes[] = {
    "gpt2", "openai-gpt", "imagegpt", "decision_transformer", "clvp", "clvp_decoder"};
constexpr std::string_view kInputFirstNames[] = {"c_attn", "q_attn", "c_proj", "c_fc"};

bool is_input_first(std::string_view model_type, std::string_view module) {
  const auto has = [](const auto& list, std::string_view word) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
  };
  return has(kInputFirstTypes, model_type) && has(kInputFirstNames, last_part(module));
}

bool fits(const NameRow& row, std::string_view module) {
  switch (row.where) {
    case Where::last_is:
      return last_part(module) == row.word;
    case Where::last_contains:
      return last_part(module).find(row.word) != std::string_view::npos;
    case Where::any_is:
    case Where::any_begins:
      break;
  }
  while (!module.empty()) {
    const std::string_view part = module.substr(0, module.find('.'));
    if (row.where == Where::any_is ? part == row.word : part.starts_with(row.word)) return true;
    module.remove_prefix(std::min(part.size() + 1, module.size()));
  }
  return false;
}

// "model.layers.61.x": 61; -1 without one.
int64_t layer_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  size_t at = name.starts_with(kLayers) ? 0 : name.find(".layers.");
  if (at == std::string_view::npos) return -1;
  at = name.find(kLayers, at) + kLayers.size();
  int64_t layer = -1;
  const auto [end, error] = std::from_chars(name.data() + at, name.data() + name.size(), layer);
  return error == std::errc() && end != name.data() + name.size() && *end == '.' ? layer : -1;
}

const json* find_in(const json& config, const char* key) {
  const auto it = config.find(key);
  if (it != config.end() && !it->is_null()) return &*it;
  for (const char* nested : kLanguageConfigs) {
    const auto inner = config.find(nested);
    if (inner == config.end() || !inner->is_object()) continue;
    const auto found = inner->find(key);
    if (found != inner->end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

}  // namespace

const char* to_string(Reason reason) {
  return kReasonRows[static_cast<int>(reason)].text;
}

const char* code_of(Reason reason) {
  return kReasonRows[static_cast<int>(reason)].code;
}

ModelTraits traits_of(const json& config) {
  ModelTraits out;
  const auto integer = [&](const char* key, int64_t otherwise) {
    const json* value = find_in(config, key);
    return value != nullptr && value->is_number_integer() ? value->get<int64_t>() : otherwise;
  };
  const auto text = [&](const char* key) {
    const json* value = find_in(config, key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  };
  out.model_type = text("model_type");
  out.layers = integer("num_hidden_layers", -1);
  out.mtp_layers = integer("num_nextn_predict_layers", 0);
  out.kv_heads = integer("num_key_value_heads", 0);
  const json* tied = find_in(config, "tie_word_embeddings");
  out.tied = tied != nullptr && *tied == true;
  out.dtype = text("torch_dtype");
  if (out.dtype.empty()) out.dtype = text("dtype");
  return out;
}

std::string_view last_part(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::string_view parent_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

Reason decide(const ModelTraits& traits, std::string_view tensor, StoredType type,
              std::span<const int64_t> shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return Reason::empty;
  if (type != StoredType::bf16 && type != StoredType::f16 && type != StoredType::f32) {
    return Reason::integer_or_other_type;
  }
  const bool is_stack = looks_like_stack(tensor, shape);
  if (last_part(tensor) != "weight" && !is_stack) return Reason::no_weight;
  const std::string_view module = module_of(tensor);
  if (shape.size() < 2) {
    return last_part(module).find("norm") != std::string_view::npos ? Reason::norm
                                                                    : Reason::one_dimensional;
  }
  const auto* row = std::find_if(std::begin(kNames), std::end(kNames),
                                 [&](const NameRow& r) { return fits(r, module); });
  if (row != std::end(kNames)) return row->reason;
  if (shape.size() > 2 && !is_stack) return Reason::many_dimensional;
  // Mistral's own names: `output` at the top is the head, in BERT it is a layer.
  if (module == "output") return Reason::output_head;
  if (is_input_first(traits.model_type, module)) return Reason::input_first;
  if (traits.mtp_layers > 0 && traits.layers >= 0 && layer_of(tensor) >= traits.layers) {
    return Reason::multi_token;
  }
  return Reason::linear_weight;
}

}  // namespace rowscale::checkpoint
