// What is quantized and what is left alone, and why: one table over the names of modules, after the
// published recipes of llm-compressor, ModelOpt and vLLM's models.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/stored_type.hpp"

namespace rowscale::checkpoint {

enum class Reason {
  linear_weight,  // the only one that quantizes
  requested,      // --ignore
  integer_or_other_type,
  no_weight,  // biases, buffers, parameters of their own
  one_dimensional,
  empty,
  many_dimensional,  // convolutions
  unknown_stack,     // experts in one tensor, of a model type that expert_stack does not know
  input_first,       // [in, out], the module no linear layer to readers
  output_head,
  embedding,
  norm,
  router,
  vision,
  audio,
  projector,
  state_space,
  indexer,
  multi_token,
  source_left_it,   // the source is FP8 and has this weight in 16 bits
  fused_with_left,  // another member of its fused group is left alone
  already_fp8,      // a weight of a block FP8 source
  scale_of_weight,  // the scales that belong to such a weight
  tied_duplicate,   // an output head equal to the embedding it is tied to
  stale,            // the index assigns the name to another file
};
inline constexpr int kReasons = static_cast<int>(Reason::stale) + 1;

const char* to_string(Reason reason);  // "output head"
const char* code_of(Reason reason);    // "output_head": for --json

// What the table needs to know of config.json.
struct ModelTraits {
  std::string model_type;
  int64_t layers = -1;     // num_hidden_layers; -1: not there
  int64_t mtp_layers = 0;  // num_nextn_predict_layers
  bool tied = false;       // tie_word_embeddings
  int64_t kv_heads = 0;    // num_key_value_heads; 0: not there
  std::string dtype;       // "bfloat16"; empty: not there
};

ModelTraits traits_of(const nlohmann::json& config);

// Of one tensor on its own; fused groups and sources in FP8 are the plan's matter. Of experts in
// one tensor (looks_like_stack) only whether their place in the model leaves them alone:
// linear_weight where it does not.
Reason decide(const ModelTraits& traits, std::string_view tensor, StoredType type,
              std::span<const int64_t> shape);

// The last part of a dotted name, and what stands before its dot.
std::string_view last_part(std::string_view name);
std::string_view parent_of(std::string_view name);

}  // namespace rowscale::checkpoint
