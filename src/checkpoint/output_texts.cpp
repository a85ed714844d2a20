#include "checkpoint/output_texts.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/json_text.hpp"
#include "checkpoint/language_config.hpp"
#include "checkpoint/output_names.hpp"
#include "rowscale/version.hpp"

namespace rowscale::checkpoint {
namespace {

using nlohmann::ordered_json;

constexpr int kRecordVersion = 1;

// `scale_dtype`, `zp_dtype` and the like are refused by older readers: not here.
ordered_json tensor_args(const char* strategy, bool dynamic) {
  ordered_json args;
  args["num_bits"] = 8;
  args["type"] = "float";
  args["strategy"] = strategy;
  args["symmetric"] = true;
  args["dynamic"] = dynamic;
  args["group_size"] = nullptr;
  args["block_structure"] = nullptr;
  args["actorder"] = nullptr;
  args["observer"] = dynamic ? ordered_json() : ordered_json("minmax");
  args["observer_kwargs"] = ordered_json::object();
  return args;
}

// "rowscale 0.1.0 (...)": the number alone, so that equal releases write equal files.
std::string release() {
  const std::string all = version();
  const size_t begin = all.find(' ') + 1;
  return all.substr(begin, all.find(' ', begin) - begin);
}

std::string basename_of(const Model& model) {
  const std::filesystem::path path = std::filesystem::absolute(model.path()).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

}  // namespace

std::string quantization_text(const Plan& plan) {
  ordered_json weights;
  ordered_json activations;
  switch (plan.request.scheme) {
    case Scheme::fp8_dynamic:
      weights = tensor_args("channel", false);
      activations = tensor_args("token", true);
      break;
    case Scheme::fp8_block:
      weights = tensor_args("block", false);
      weights["block_structure"] = {plan.block_rows, plan.block_columns};
      activations = tensor_args("group", true);
      activations["group_size"] = plan.block_columns;
      break;
    case Scheme::fp8_tensor:
      weights = tensor_args("tensor", false);
      activations = tensor_args("token", true);
      break;
  }
  ordered_json group;
  group["targets"] = {"Linear"};
  group["weights"] = weights;
  group["input_activations"] = activations;
  group["output_activations"] = nullptr;
  ordered_json out;
  out["config_groups"]["group_0"] = group;
  out["format"] = "float-quantized";
  out["global_compression_ratio"] = nullptr;
  out["ignore"] = plan.ignore;
  out["kv_cache_scheme"] = nullptr;
  if (plan.has_kv_scales) out["kv_cache_scheme"] = tensor_args("tensor", false);
  out["quant_method"] = "compressed-tensors";
  out["quantization_status"] = "compressed";
  return out.dump(2);
}

std::string config_text(const Model& model, const Plan& plan) {
  constexpr std::string_view kKey = "quantization_config";
  const std::string value = quantization_text(plan);
  std::string out = model.config_text();
  for (const char* nested : kLanguageConfigs) {
    const auto language = model.config().find(nested);
    if (language == model.config().end() || !language->is_object()) continue;
    const auto there = language->find(kKey);
    if (there == language->end() || there->is_null()) continue;
    out = with_member(out, {nested, kKey}, value, kConfigName);
  }
  return with_member(out, {kKey}, value, kConfigName);
}

void write_index(const Model& model, const Plan& plan,
                 const std::function<void(std::string_view)>& sink) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<std::pair<std::string, uint32_t>> names;
  for (const TensorPlan& tensor : plan.tensors) {
    for (OutputTensor& out : outputs_of(plan, model, tensor)) {
      names.emplace_back(std::move(out.name), tensor.source.shard);
    }
  }
  std::sort(names.begin(), names.end());
  std::string out =
      "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(plan.output_bytes) +
      "\n  },\n  \"weight_map\": {";
  const char* between = "\n";
  for (const auto& [name, shard] : names) {
    out += between;
    out += "    " + nlohmann::json(name).dump() + ": " +
           nlohmann::json(model.shard_name(shard)).dump();
    between = ",\n";
    if (out.size() < kPiece) continue;
    sink(out);
    out.clear();
  }
  sink(out + "\n  }\n}\n");
}

std::string source_name(const Model& model, const Plan& plan) {
  if (!plan.request.base_model.empty()) return plan.request.base_model;
  // Not config.json's _name_or_path: it often names what the model was tuned from.
  // The Hub's cache: models--owner--name/snapshots/hash
  constexpr std::string_view kPrefix = "models--";
  const std::filesystem::path path = std::filesystem::absolute(model.path()).lexically_normal();
  for (const auto& part : path) {
    std::string name = part.string();
    if (name.rfind(kPrefix, 0) != 0) continue;
    name = name.substr(kPrefix.size());
    const size_t at = name.find("--");
    return at == std::string::npos ? name : name.substr(0, at) + "/" + name.substr(at + 2);
  }
  return basename_of(model);
}

std::string record_text(const Model& model, const Plan& plan,
                        const std::vector<FinishedFile>& files) {
  ordered_json out;
  out["rowscale"] = release();
  out["record"] = kRecordVersion;
  out["scheme"] = std::string(to_string(plan.request.scheme));
  out["numerics"] = std::string(to_string(plan.request.numerics));
  out["ignore"] = plan.request.ignore;
  out["source"] = source_name(model, plan);
  out["source_bytes"] = plan.source_bytes;
  out["quantized_bytes"] = plan.quantized_bytes;
  out["quantized_share"] = plan.share_quantized();
  out["files"] = ordered_json::array();
  std::vector<FinishedFile> sorted = files;
  std::sort(sorted.begin(), sorted.end(),
            [](const FinishedFile& a, const FinishedFile& b) { return a.name < b.name; });
  for (const FinishedFile& file : sorted) {
    out["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace rowscale::checkpoint
