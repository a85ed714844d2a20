#include "checkpoint/verify_plan.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/json_text.hpp"
#include "checkpoint/language_config.hpp"
#include "checkpoint/output_names.hpp"
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

void compare_ignore(const json& wanted, const json& got, const std::string& where, Check* check) {
  const std::set<std::string> left = texts_of(wanted);
  const std::set<std::string> named = texts_of(got);
  check->add_item(static_cast<int64_t>(left.size()));
  for (const std::string& name : left) {
    if (named.count(name) != 0) continue;
    check->add_problem(fmt::format("{}: ignore: {} is missing: readers would take it for quantized",
                                   where, shown(name)));
  }
  for (const std::string& name : named) {
    if (left.count(name) == 0) {
      check->add_problem(
          fmt::format("{}: ignore: {} is not left alone by the plan", where, shown(name)));
    }
  }
}

// What is at `place` in `from`, which is taken out; null where nothing is.
json taken(json* from, const json::json_pointer& place) {
  if (!from->contains(place)) return {};
  json& parent = from->at(place.parent_pointer());
  json out = std::move(parent.at(kMember));
  parent.erase(kMember);
  return out;
}

void compare_members(const json& wanted, const json& got, const std::string& where, Check* check) {
  check->add_item();
  if (wanted == got) return;
  const int64_t before = check->problems();
  for (const auto& [key, value] : wanted.items()) {
    check->add_item();
    const json other = got.is_object() ? got.value(key, json()) : json();
    if (other == value) continue;
    if (key == "ignore") {
      compare_ignore(value, other, where, check);
    } else {
      check->add_problem(fmt::format("{}: {}: expected {}, got {}", where, key, shown(value.dump()),
                                     shown(other.dump())));
    }
  }
  if (check->problems() == before) check->add_problem(where + ": has members that are not ours");
}

void compare_configs(const Model& result, const Model& source, const Plan& plan, Check* check) {
  const std::string wanted_text = config_text(source, plan);
  check->add_item();
  if (wanted_text == result.config_text()) return;
  json wanted = parse_config(wanted_text, kConfigName);
  json got = result.config();
  const int64_t before = check->problems();
  const json::json_pointer at_top = json::json_pointer() / kMember;
  compare_members(taken(&wanted, at_top), taken(&got, at_top), kMember, check);
  for (const char* nested : kLanguageConfigs) {  // some sources have one there too
    const json::json_pointer place = json::json_pointer() / nested / kMember;
    if (!wanted.contains(place)) continue;
    compare_members(taken(&wanted, place), taken(&got, place),
                    fmt::format("{}.{}", nested, kMember), check);
  }
  if (wanted != got) {
    check->add_problem("config.json: not the members of the source's");
  } else if (check->problems() == before) {
    check->add_problem("config.json: not the bytes of the source's");
  }
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
