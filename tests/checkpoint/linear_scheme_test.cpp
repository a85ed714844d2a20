// Configurations as linear layers take them: those of docs/compatibility.md, and what is refused.
#include "checkpoint/linear_scheme.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace rowscale::checkpoint {
namespace {

Status scheme_of(const std::string& quantization, LinearScheme* scheme) {
  nlohmann::json config;
  config["quantization_config"] = nlohmann::json::parse(quantization);
  return linear_scheme(read_quantization_config(config), 0, scheme);
}

// The weights and activations of one group.
std::string group(const std::string& weights, const std::string& activations) {
  return R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups":
      {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", )" +
         weights + R"(}, "input_activations": )" + activations + "}}}";
}
std::string activations(const std::string& words) {
  return R"({"num_bits": 8, "type": "float", )" + words + "}";
}

TEST(LinearSchemes, OfConfigurations) {
  using enum Granularity;
  const struct {
    std::string quantization;
    LinearScheme want;
  } cases[] = {
      {group(R"("strategy": "channel")", activations(R"("strategy": "token", "dynamic": true)")),
       {per_channel, ActivationScales::dynamic}},
      {group(R"("strategy": "tensor")", activations(R"("strategy": "token", "dynamic": true)")),
       {per_tensor, ActivationScales::dynamic}},
      {group(R"("strategy": "tensor")", activations(R"("strategy": "tensor", "dynamic": false)")),
       {per_tensor, ActivationScales::given}},
      {group(R"("strategy": "channel")", activations(R"("strategy": "tensor", "dynamic": false)")),
       {per_channel, ActivationScales::given}},
      {group(R"("strategy": "block", "block_structure": [128, 128])",
             activations(R"("strategy": "group", "group_size": 128, "dynamic": true)")),
       {per_block, ActivationScales::dynamic}},
      {group(R"("strategy": "channel")", "null"), {per_channel, ActivationScales::none}},
      {R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})",
       {per_block, ActivationScales::dynamic}},
      {R"({"quant_method": "fp8", "activation_scheme": "static"})",
       {per_tensor, ActivationScales::given}},
      {R"({"quant_method": "fp8"})", {per_tensor, ActivationScales::dynamic}},
  };
  for (const auto& c : cases) {
    LinearScheme scheme;
    const Status status = scheme_of(c.quantization, &scheme);
    ASSERT_TRUE(status.ok()) << status.message() << "\n" << c.quantization;
    EXPECT_EQ(scheme, c.want) << c.quantization;
  }
}

TEST(LinearSchemes, Refuses) {
  for (const std::string& quantization : {
           group(R"("strategy": "group", "group_size": 128)", "null"),
           group(R"("strategy": "block", "block_structure": [64, 128])", "null"),
           group(R"("strategy": "channel", "symmetric": false)", "null"),
           group(R"("strategy": "channel")", activations(R"("strategy": "token")")),
           group(R"("strategy": "block", "block_structure": [128, 128])",
                 activations(R"("strategy": "token", "dynamic": true)")),
           std::string(R"({"quant_method": "compressed-tensors", "config_groups": {}})"),
           std::string(R"({"quant_method": "gptq"})"),
           std::string(R"({"quant_method": "fp8", "activation_scheme": "static",
                           "weight_block_size": [128, 128]})"),
       }) {
    LinearScheme scheme;
    const Status status = scheme_of(quantization, &scheme);
    EXPECT_EQ(status.code(), StatusCode::unsupported) << quantization;
    EXPECT_EQ(status.message().find("quantization_config: "), 0U) << status.message();
  }
}

}  // namespace
}  // namespace rowscale::checkpoint
