#include "checkpoint/verify_plan.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "checkpoint/json_text.hpp"
#include "checkpoint/output_texts.hpp"
#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {
namespace {

using nlohmann::json;

constexpr const char* kMember = "quantization_config";

std::set<std::string> texts_of(const json& list) {
  std::set<std::string> out;
  for (const json& text : list) {
    if (text.is_string()) out.insert(text.get<std::string>());
  }
  return out;
}

void compare_ignore(const json& wanted, const json& got, Check* check) {
  const std::set<std::string> left = texts_of(wanted);
  const std::set<std::string> named = texts_of(got);
  check->add_item(static_cast<int64_t>(left.size()));
  for (const std::string& name : left) {
    if (named.count(name) != 0) continue;
    check->add_problem(
        fmt::format("ignore: {} is missing: readers would take it for quantized", shown(name)));
  }
  for (const std::string& name : named) {
    if (left.count(name) == 0) {
      check->add_problem(fmt::format("ignore: {} is not left alone by the plan", shown(name)));
    }
  }
}

void compare_configs(const Model& result, const Model& source, const Plan& plan, Check* check) {
  const std::string wanted_text = config_text(source, plan);
  check->add_item();
  if (wanted_text == result.config_text()) return;
  json wanted = parse_config(wanted_text, "config.json");
  json got = result.config();
  const json wanted_member = wanted.value(kMember, json());
  const json got_member = got.value(kMember, json());
  if (wanted_member == got_member) {
    wanted.erase(kMember);
    got.erase(kMember);
    return check->add_problem(wanted == got ? "config.json: not the bytes of the source's"
                                            : "config.json: not the members of the source's");
  }
  for (const auto& [key, value] : wanted_member.items()) {
    check->add_item();
    const json other = got_member.is_object() ? got_member.value(key, json()) : json();
    if (other == value) continue;
    if (key == "ignore") {
      compare_ignore(value, other, check);
    } else {
      check->add_problem(fmt::format("{}: {}: expected {}, got {}", kMember, key,
                                     shown(value.dump()), shown(other.dump())));
    }
  }
  if (check->holds()) check->add_problem(std::string(kMember) + ": has members that are not ours");
}

// A missing tensor is the matter of other checks.
void compare_places(const Model& result, const Model& source, const Plan& plan, Check* check) {
  for (const TensorPlan& tensor : plan.tensors) {
    const std::string& wanted = source.shard_name(tensor.source.shard);
    for (const OutputTensor& out : outputs_of(plan, source, tensor)) {
      check->add_item();
      const auto place = result.find(out.name);
      if (!place || result.shard_name(place->shard) == wanted) continue;
      check->add_problem(fmt::format("{}: lies in {}, expected it in {}", out.name,
                                     result.shard_name(place->shard), wanted));
    }
  }
}

}  // namespace

Check verify_plan(const Model& result, const Model& source, const Plan& plan) {
  Check check("plan", "configuration and places are those that the source gives");
  compare_configs(result, source, plan, &check);
  compare_places(result, source, plan, &check);
  return check;
}

}  // namespace rowscale::checkpoint
