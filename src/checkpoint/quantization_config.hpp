// What a model's configuration says about how its weights are quantized.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rowscale::checkpoint {

enum class SourceFormat {
  plain,           // no quantization
  block_fp8,       // DeepSeek: `weight_scale_inv`, a scale a block
  fp8_per_tensor,  // AutoFP8 and what transformers calls "fp8" without a block size
  compressed_tensors,
  modelopt,
  gptq,
  awq,
  bitsandbytes,
  mxfp4,
  nvfp4,
  other,
};

const char* to_string(SourceFormat format);  // for people: "ModelOpt"

// One `QuantizationArgs` of compressed-tensors; what is absent is empty.
struct QuantizedTensorConfig {
  int64_t bits = 0;
  std::string type;      // "float", "int"
  std::string strategy;  // "channel", "tensor", "block", "token", "group", ...
  bool is_dynamic = false;
  bool is_symmetric = true;
  int64_t group_size = 0;
  std::vector<int64_t> block_structure;  // rows, columns
};

struct ConfigGroup {
  std::string name;
  std::vector<std::string> targets;
  std::string format;
  std::optional<QuantizedTensorConfig> weights;
  std::optional<QuantizedTensorConfig> input_activations;
};

struct QuantizationConfig {
  SourceFormat format = SourceFormat::plain;
  std::string method;  // "quant_method" as it stands there, or where the format was seen

  // block_fp8 and fp8_per_tensor
  std::string activation_scheme;  // "dynamic", "static", or empty

  // block_fp8
  int64_t block_rows = 0;
  int64_t block_columns = 0;
  std::string scale_format;             // "ue8m0", or empty: fp32
  std::vector<std::string> left_alone;  // modules_to_not_convert, ignored_layers

  // compressed_tensors
  std::string status;   // "compressed"
  std::string storage;  // "format": "float-quantized"
  std::vector<ConfigGroup> groups;
  std::vector<std::string> ignore;
  bool has_kv_cache_scheme = false;
};

// `config`: the content of config.json. Throws Failure(input) where the quantization is described
// in a way that cannot be understood; a format that cannot be converted is no failure here.
QuantizationConfig read_quantization_config(const nlohmann::json& config);

}  // namespace rowscale::checkpoint
