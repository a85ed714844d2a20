#include "checkpoint/quantization_config.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>

#include "checkpoint/failure.hpp"
#include "checkpoint/language_config.hpp"
#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {
namespace {

using nlohmann::json;

const json* member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string text_of(const json& object, const char* key) {
  const json* value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

int64_t integer_of(const json& object, const char* key) {
  const json* value = member(object, key);
  return value != nullptr && value->is_number_integer() ? value->get<int64_t>() : 0;
}

std::vector<std::string> texts_of(const json& object, const char* key) {
  std::vector<std::string> out;
  const json* value = member(object, key);
  if (value == nullptr || !value->is_array()) return out;
  for (const json& text : *value) {
    if (text.is_string()) out.push_back(text.get<std::string>());
  }
  return out;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// "128x128".
std::vector<int64_t> sizes_in(std::string_view text) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  int64_t rows = 0;
  int64_t columns = 0;
  const auto [cross, error] = std::from_chars(begin, end, rows);
  if (error != std::errc() || cross == end || *cross != 'x') return {};
  const auto [rest, second_error] = std::from_chars(cross + 1, end, columns);
  if (second_error != std::errc() || rest != end) return {};
  return {rows, columns};
}

// A list of two, or the text of versions before 0.11.
std::vector<int64_t> block_structure(const json& args) {
  std::vector<int64_t> out;
  const json* value = member(args, "block_structure");
  if (value == nullptr) return out;
  if (value->is_array()) {
    for (const json& size : *value)
      out.push_back(size.is_number_integer() ? size.get<int64_t>() : 0);
  } else if (value->is_string()) {
    out = sizes_in(value->get<std::string>());
  }
  if (out.size() != 2 || out[0] <= 0 || out[1] <= 0) {
    refuse_input("quantization_config: block_structure: expected two positive integers, got {}",
                 shown(value->dump()));
  }
  return out;
}

std::optional<QuantizedTensorConfig> args_of(const json& group, const char* key) {
  const json* args = member(group, key);
  if (args == nullptr || !args->is_object()) return std::nullopt;
  QuantizedTensorConfig out;
  out.bits = integer_of(*args, "num_bits");
  out.type = text_of(*args, "type");
  out.strategy = text_of(*args, "strategy");
  const json* dynamic = member(*args, "dynamic");
  out.is_dynamic = dynamic != nullptr && (dynamic->is_string() || *dynamic == true);
  const json* symmetric = member(*args, "symmetric");
  out.is_symmetric = symmetric == nullptr || *symmetric == true;
  out.group_size = integer_of(*args, "group_size");
  out.block_structure = block_structure(*args);
  return out;
}

void read_compressed_tensors(const json& quantization, QuantizationConfig* out) {
  out->format = SourceFormat::compressed_tensors;
  out->status = text_of(quantization, "quantization_status");
  out->storage = text_of(quantization, "format");
  out->ignore = texts_of(quantization, "ignore");
  out->has_kv_cache_scheme = member(quantization, "kv_cache_scheme") != nullptr;
  const json* groups = member(quantization, "config_groups");
  if (groups == nullptr || !groups->is_object()) return;
  for (const auto& [name, group] : groups->items()) {
    ConfigGroup one;
    one.name = name;
    one.targets = texts_of(group, "targets");
    one.format = text_of(group, "format");
    one.weights = args_of(group, "weights");
    one.input_activations = args_of(group, "input_activations");
    out->groups.push_back(std::move(one));
  }
  if (contains(lower(out->storage), "nvfp4")) out->format = SourceFormat::nvfp4;
}

void read_fp8(const json& quantization, QuantizationConfig* out) {
  out->left_alone = texts_of(quantization, "modules_to_not_convert");
  for (const std::string& name : texts_of(quantization, "ignored_layers")) {
    out->left_alone.push_back(name);
  }
  out->scale_format = text_of(quantization, "scale_fmt");
  out->activation_scheme = text_of(quantization, "activation_scheme");
  const json* block = member(quantization, "weight_block_size");
  if (block == nullptr) {
    out->format = SourceFormat::fp8_per_tensor;
    return;
  }
  if (!block->is_array() || block->size() != 2 || !(*block)[0].is_number_integer() ||
      !(*block)[1].is_number_integer() || (*block)[0] < 1 || (*block)[1] < 1 ||
      (*block)[0] > (1 << 20) || (*block)[1] > (1 << 20)) {
    refuse_input("quantization_config: weight_block_size: expected two positive integers, got {}",
                 shown(block->dump()));
  }
  out->format = SourceFormat::block_fp8;
  out->block_rows = (*block)[0].get<int64_t>();
  out->block_columns = (*block)[1].get<int64_t>();
  const std::string fmt_text = lower(text_of(quantization, "fmt"));
  if (!fmt_text.empty() && fmt_text != "e4m3" && fmt_text != "float8_e4m3fn") {
    refuse_input("quantization_config: fmt: expected \"e4m3\", got {}", shown(fmt_text));
  }
}

}  // namespace

const char* to_string(SourceFormat format) {
  switch (format) {
    case SourceFormat::plain:
      return "not quantized";
    case SourceFormat::block_fp8:
      return "block FP8 (DeepSeek)";
    case SourceFormat::fp8_per_tensor:
      return "FP8 with a scale a tensor (AutoFP8)";
    case SourceFormat::compressed_tensors:
      return "compressed-tensors";
    case SourceFormat::modelopt:
      return "ModelOpt";
    case SourceFormat::gptq:
      return "GPTQ";
    case SourceFormat::awq:
      return "AWQ";
    case SourceFormat::bitsandbytes:
      return "bitsandbytes";
    case SourceFormat::mxfp4:
      return "MXFP4";
    case SourceFormat::nvfp4:
      return "NVFP4";
    case SourceFormat::other:
      break;
  }
  return "an unknown quantization";
}

QuantizationConfig read_quantization_config(const json& config) {
  QuantizationConfig out;
  const json* quantization = member(config, "quantization_config");
  if (quantization == nullptr)
    quantization = member(config, "compression_config");  // before 2024-09
  for (const char* nested : kLanguageConfigs) {
    const json* language = quantization == nullptr ? member(config, nested) : nullptr;
    if (language != nullptr) quantization = member(*language, "quantization_config");
  }
  if (quantization == nullptr) return out;
  if (!quantization->is_object()) {
    refuse_input("config.json: quantization_config: expected an object, got {}",
                 shown(quantization->dump()));
  }
  out.method = text_of(*quantization, "quant_method");
  const std::string method = lower(out.method);
  if (method == "fp8") {
    read_fp8(*quantization, &out);
  } else if (method == "compressed-tensors" || member(*quantization, "config_groups") != nullptr) {
    if (method.find("modelopt") != std::string::npos ||
        text_of(member(*quantization, "producer") ? *member(*quantization, "producer") : json(),
                "name") == "modelopt") {
      out.format = SourceFormat::modelopt;
    } else {
      read_compressed_tensors(*quantization, &out);
    }
  } else if (contains(method, "modelopt")) {
    out.format = SourceFormat::modelopt;
  } else if (contains(method, "gptq")) {
    out.format = SourceFormat::gptq;
  } else if (contains(method, "awq")) {
    out.format = SourceFormat::awq;
  } else if (contains(method, "bitsandbytes") || member(*quantization, "load_in_4bit") != nullptr ||
             member(*quantization, "load_in_8bit") != nullptr) {
    out.format = SourceFormat::bitsandbytes;
  } else if (contains(method, "mxfp4")) {
    out.format = SourceFormat::mxfp4;
  } else if (contains(method, "nvfp4")) {
    out.format = SourceFormat::nvfp4;
  } else {
    out.format = SourceFormat::other;
  }
  const json* algorithm = member(*quantization, "quant_algo");
  if (out.format == SourceFormat::modelopt && algorithm != nullptr &&
      contains(lower(algorithm->dump()), "nvfp4")) {
    out.format = SourceFormat::nvfp4;
  }
  return out;
}

}  // namespace rowscale::checkpoint
