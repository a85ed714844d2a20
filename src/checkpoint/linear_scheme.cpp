#include "checkpoint/linear_scheme.hpp"

#include <fmt/format.h>

#include <string>

#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr int64_t kBlockSize = 128;

Status unsupported(std::string message) {
  return {StatusCode::unsupported, std::move(message)};
}

Status check_block(int64_t rows, int64_t columns) {
  if (rows == kBlockSize && columns == kBlockSize) return {};
  return unsupported(fmt::format(
      "quantization_config: weights: expected blocks of 128 x 128, got {} x {}", rows, columns));
}

Status check_fp8(const char* what, const QuantizedTensorConfig& args) {
  if (args.bits == 8 && args.type == "float" && args.is_symmetric) return {};
  return unsupported(
      fmt::format("quantization_config: {}: expected FP8 without zero points, got "
                  "{}-bit {}{}",
                  what, args.bits, shown(args.type), args.is_symmetric ? "" : " with zero points"));
}

Status read_weights(const QuantizedTensorConfig& args, Granularity* weights) {
  if (Status status = check_fp8("weights", args); !status.ok()) return status;
  if (args.strategy == "tensor") {
    *weights = Granularity::per_tensor;
  } else if (args.strategy == "channel") {
    *weights = Granularity::per_channel;
  } else if (args.strategy == "block") {
    *weights = Granularity::per_block;
    if (args.block_structure.size() != 2) return check_block(0, 0);
    return check_block(args.block_structure[0], args.block_structure[1]);
  } else {
    return unsupported(fmt::format(
        "quantization_config: weights: expected strategy tensor, channel or block, got {}",
        shown(args.strategy)));
  }
  return {};
}

Status read_activations(const QuantizedTensorConfig& args, Granularity weights,
                        ActivationScales* activations) {
  if (Status status = check_fp8("input_activations", args); !status.ok()) return status;
  const bool is_block = weights == Granularity::per_block;
  const bool fits = is_block ? args.strategy == "group" && args.group_size == kBlockSize
                             : args.strategy == "tensor" || args.strategy == "token";
  if (!fits || (args.strategy != "tensor" && !args.is_dynamic)) {
    return unsupported(
        fmt::format("quantization_config: input_activations: expected {}, got strategy {}{}",
                    is_block ? "dynamic groups of 128 beside weights by block"
                             : "a scale a tensor, or dynamic ones a token",
                    shown(args.strategy), args.is_dynamic ? "" : ", stored"));
  }
  *activations = args.is_dynamic ? ActivationScales::dynamic : ActivationScales::given;
  return {};
}

Status read_group(const ConfigGroup& group, LinearScheme* scheme) {
  if (!group.weights) {
    return unsupported(fmt::format("quantization_config: group {}: expected quantized weights",
                                   shown(group.name)));
  }
  if (Status status = read_weights(*group.weights, &scheme->weights); !status.ok()) return status;
  if (!group.input_activations) {
    scheme->activations = ActivationScales::none;
    return {};
  }
  return read_activations(*group.input_activations, scheme->weights, &scheme->activations);
}

// AutoFP8, DeepSeek: readers take what is absent for dynamic.
Status read_fp8(const QuantizationConfig& config, LinearScheme* scheme) {
  const bool is_block = config.format == SourceFormat::block_fp8;
  scheme->weights = is_block ? Granularity::per_block : Granularity::per_tensor;
  if (is_block) {
    if (Status status = check_block(config.block_rows, config.block_columns); !status.ok()) {
      return status;
    }
  }
  if (config.activation_scheme.empty() || config.activation_scheme == "dynamic") {
    scheme->activations = ActivationScales::dynamic;
  } else if (config.activation_scheme == "static" && !is_block) {
    scheme->activations = ActivationScales::given;
  } else {
    return unsupported(
        fmt::format("quantization_config: activation_scheme: expected dynamic{}, "
                    "got {}",
                    is_block ? "" : " or static", shown(config.activation_scheme)));
  }
  return {};
}

}  // namespace

Status linear_scheme(const QuantizationConfig& config, size_t group, LinearScheme* scheme) {
  LinearScheme read;
  Status status;
  switch (config.format) {
    case SourceFormat::compressed_tensors:
      if (group >= config.groups.size()) {
        return unsupported(fmt::format("quantization_config: expected a group {}, got {} groups",
                                       group, config.groups.size()));
      }
      status = read_group(config.groups[group], &read);
      break;
    case SourceFormat::block_fp8:
    case SourceFormat::fp8_per_tensor:
      status = read_fp8(config, &read);
      break;
    default:
      return unsupported(
          fmt::format("quantization_config: expected FP8, got {}", to_string(config.format)));
  }
  if (status.ok()) *scheme = read;
  return status;
}

}  // namespace rowscale::checkpoint
