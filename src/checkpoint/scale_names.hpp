// Which tensor holds the scales of an FP8 weight. Producers spell it differently, and it may lie in
// another shard.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/model.hpp"

namespace rowscale::checkpoint {

enum class ScaleSpelling {
  weight_scale,      // compressed-tensors, AutoFP8, ModelOpt
  weight_scale_inv,  // DeepSeek; to be multiplied with like the others, despite its name
  scale,             // DeepSeek's newest: one UE8M0 byte a block
};

struct ScaleTensor {
  Place place;
  ScaleSpelling spelling = ScaleSpelling::weight_scale;
};

// "a.b.weight" -> "a.b"; "a.b" -> "a.b"
std::string_view module_of(std::string_view tensor);

// The scales of the weight `tensor`. Throws Failure(input) where two spellings are there at once.
std::optional<ScaleTensor> find_scale(const Model& model, std::string_view tensor);

// Whether a tensor holds scales of a weight, by its name. `.scale` is a common name of other things
// and counts beside an FP8 weight only.
bool is_scale_name(const Model& model, std::string_view tensor);

// Whether a tensor holds scales of a kv-cache or of queries, by its name: `k_scale`, and as older
// files have them, `k_proj.output_scale`.
bool is_cache_scale_name(std::string_view tensor);

// The name of the weight that a tensor holds the scales of; empty: it is named like no scale.
std::string weight_of_scale(std::string_view tensor);

}  // namespace rowscale::checkpoint
