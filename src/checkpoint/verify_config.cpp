#include "checkpoint/verify_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/language_config.hpp"
#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kConfigFields[] = {"quant_method",        "format",
                                              "config_groups",       "ignore",
                                              "kv_cache_scheme",     "version",
                                              "quantization_status", "sparsity_config",
                                              "transform_config",    "global_compression_ratio"};
constexpr std::string_view kGroupFields[] = {"targets", "weights", "input_activations",
                                             "output_activations", "format"};
// scale_dtype and zp_dtype came with 0.13: models that have them do not load in older readers.
constexpr std::string_view kArgsFields[] = {
    "num_bits",        "type",     "strategy", "symmetric",      "dynamic", "group_size",
    "block_structure", "actorder", "observer", "observer_kwargs"};

void only_known(const json& object, std::span<const std::string_view> known,
                const std::string& where, Check* check) {
  for (const auto& [key, value] : object.items()) {
    check->add_item();
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      check->add_problem(
          fmt::format("{}: {} is a field that not all readers know", where, shown(key)));
    }
  }
}

void expect(const json& object, const char* key, const json& wanted, const std::string& where,
            Check* check) {
  check->add_item();
  const auto it = object.find(key);
  if (it != object.end() && *it == wanted) return;
  check->add_problem(fmt::format("{}: {}: expected {}, got {}", where, key, wanted.dump(),
                                 it == object.end() ? "nothing" : shown(it->dump())));
}

// One of a few texts; returns it.
std::string expect_one_of(const json& object, const char* key,
                          std::span<const std::string_view> allowed, const std::string& where,
                          Check* check) {
  check->add_item();
  const auto it = object.find(key);
  const std::string text = it != object.end() && it->is_string() ? it->get<std::string>() : "";
  if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) {
    check->add_problem(fmt::format("{}: {}: expected one of {}, got {}", where, key,
                                   fmt::join(allowed, ", "),
                                   it == object.end() ? "nothing" : shown(it->dump())));
  }
  return text;
}

// A positive integer, or a list of `count` of them.
void expect_positive(const json& object, const char* key, size_t count, const std::string& where,
                     Check* check) {
  check->add_item();
  const json value = object.value(key, json());
  const json list = count == 1 ? json::array({value}) : value;
  const bool fits = list.is_array() && list.size() == count &&
                    std::all_of(list.begin(), list.end(), [](const json& x) {
                      return x.is_number_unsigned() && x.get<uint64_t>() > 0;
                    });
  if (fits) return;
  check->add_problem(fmt::format("{}: {}: expected {} positive integers, got {}", where, key, count,
                                 shown(value.dump())));
}

void verify_weights(const json& args, const std::string& where, Check* check) {
  only_known(args, kArgsFields, where, check);
  expect(args, "num_bits", 8, where, check);
  expect(args, "type", "float", where, check);
  expect(args, "symmetric", true, where, check);
  expect(args, "dynamic", false, where, check);
  constexpr std::string_view kStrategies[] = {"channel", "tensor", "block"};
  if (expect_one_of(args, "strategy", kStrategies, where, check) == "block") {
    expect_positive(args, "block_structure", 2, where, check);
  }
}

void verify_activations(const json& args, const std::string& where, Check* check) {
  only_known(args, kArgsFields, where, check);
  expect(args, "num_bits", 8, where, check);
  expect(args, "type", "float", where, check);
  expect(args, "symmetric", true, where, check);
  constexpr std::string_view kStrategies[] = {"token", "tensor", "group"};
  const std::string strategy = expect_one_of(args, "strategy", kStrategies, where, check);
  if (strategy != "tensor") expect(args, "dynamic", true, where, check);
  if (strategy == "group") expect_positive(args, "group_size", 1, where, check);
}

void verify_group(const json& group, const std::string& where, Check* check) {
  if (!group.is_object()) return check->add_problem(where + ": expected an object");
  only_known(group, kGroupFields, where, check);
  check->add_item();
  const auto targets = group.find("targets");
  if (targets == group.end() || !targets->is_array() || targets->empty()) {
    check->add_problem(where + ": targets: expected names of layers, got none");
  }
  for (const char* part : {"weights", "input_activations"}) {
    const auto args = group.find(part);
    const std::string at = fmt::format("{}.{}", where, part);
    if (args == group.end() || !args->is_object()) {
      check->add_problem(at + ": expected an object, got none");
    } else if (part == std::string_view("weights")) {
      verify_weights(*args, at, check);
    } else {
      verify_activations(*args, at, check);
    }
  }
}

}  // namespace

Check verify_config(const json& config) {
  Check check(
      "config",
      "the quantization config has only fields of compressed-tensors 0.11.0 and schemes of vLLM");
  const auto it = config.find("quantization_config");
  if (it == config.end() || !it->is_object()) {
    check.add_problem("config.json: quantization_config: expected an object, got none");
    return check;
  }
  const std::string where = "quantization_config";
  for (const char* nested : kLanguageConfigs) {
    const auto language = config.find(nested);
    if (language == config.end() || !language->is_object()) continue;
    const auto other = language->find(where);
    if (other == language->end() || other->is_null()) continue;
    check.add_item();
    if (*other != *it)
      check.add_problem(fmt::format("{}.{}: differs from that at the top", nested, where));
  }
  only_known(*it, kConfigFields, where, &check);
  expect(*it, "quant_method", "compressed-tensors", where, &check);
  expect(*it, "format", "float-quantized", where, &check);
  expect(*it, "quantization_status", "compressed", where, &check);
  const auto ignore = it->find("ignore");
  check.add_item();
  if (ignore == it->end() || !ignore->is_array() ||
      !std::all_of(ignore->begin(), ignore->end(), [](const json& x) { return x.is_string(); })) {
    check.add_problem(where + ": ignore: expected a list of module names");
  }
  const auto groups = it->find("config_groups");
  if (groups == it->end() || !groups->is_object() || groups->empty()) {
    check.add_problem(where + ": config_groups: expected an object with a group, got none");
    return check;
  }
  for (const auto& [name, group] : groups->items()) {
    verify_group(group, fmt::format("{}.config_groups.{}", where, shown(name)), &check);
  }
  return check;
}

}  // namespace rowscale::checkpoint
