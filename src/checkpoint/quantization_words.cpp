#include "checkpoint/quantization_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr size_t kShownNames = 6;

std::string unit(const QuantizedTensorConfig& args) {
  if (args.strategy == "tensor") return "one scale a tensor";
  if (args.strategy == "channel") return "a scale an output channel";
  if (args.strategy == "token") return "a scale a token";
  if (args.strategy == "group" || args.strategy == "tensor_group") {
    return fmt::format("a scale a group of {}", args.group_size);
  }
  if (args.strategy == "block" && args.block_structure.size() == 2) {
    return fmt::format("a scale a block of {} x {}", args.block_structure[0],
                       args.block_structure[1]);
  }
  return fmt::format("strategy {}", shown(args.strategy));
}

std::string args_in_words(const QuantizedTensorConfig& args) {
  const bool is_fp8 = args.bits == 8 && args.type == "float";
  return fmt::format(
      "{}, {}{}{}",
      is_fp8 ? std::string("FP8 (e4m3)") : fmt::format("{}-bit {}", args.bits, shown(args.type)),
      unit(args), args.is_dynamic ? ", taken at run time" : ", stored",
      args.is_symmetric ? "" : ", with zero points");
}

// "a, b, c and 4 more"
std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kShownNames; ++i) {
    out += (i == 0 ? "" : ", ") + shown(names[i]);
  }
  if (names.size() > kShownNames) out += fmt::format(" and {} more", names.size() - kShownNames);
  return out;
}

void compressed_tensors(const QuantizationConfig& config, std::vector<std::string>* out) {
  out->front() += fmt::format(", storage {}, status {}",
                              config.storage.empty() ? "unnamed" : shown(config.storage),
                              config.status.empty() ? "unnamed" : shown(config.status));
  for (const ConfigGroup& group : config.groups) {
    out->push_back(fmt::format("group {}: layers {}", shown(group.name), listed(group.targets)));
    if (group.weights) out->push_back("  weights: " + args_in_words(*group.weights));
    out->push_back("  activations: " + (group.input_activations
                                            ? args_in_words(*group.input_activations)
                                            : std::string("not quantized")));
  }
  out->push_back(config.ignore.empty() ? std::string("left alone: nothing")
                                       : fmt::format("left alone ({}): {}", config.ignore.size(),
                                                     listed(config.ignore)));
  if (config.has_kv_cache_scheme) out->emplace_back("the kv cache is quantized");
}

}  // namespace

std::vector<std::string> in_words(const QuantizationConfig& config) {
  std::vector<std::string> out = {to_string(config.format)};
  switch (config.format) {
    case SourceFormat::plain:
      break;
    case SourceFormat::block_fp8:
      out.push_back(
          fmt::format("weights: FP8 (e4m3), a scale a block of {} x {}, stored as {}",
                      config.block_rows, config.block_columns,
                      config.scale_format.empty() ? "floats" : shown(config.scale_format)));
      if (!config.left_alone.empty()) {
        out.push_back(fmt::format("left alone ({}): {}", config.left_alone.size(),
                                  listed(config.left_alone)));
      }
      break;
    case SourceFormat::compressed_tensors:
    case SourceFormat::nvfp4:
      compressed_tensors(config, &out);
      break;
    default:
      if (!config.method.empty()) out.front() += " (" + shown(config.method) + ")";
      break;
  }
  return out;
}

}  // namespace rowscale::checkpoint
