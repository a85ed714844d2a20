#include "checkpoint/fused_group.hpp"

#include <algorithm>
#include <cctype>

#include "checkpoint/decision.hpp"

namespace rowscale::checkpoint {
namespace {

struct Fusion {
  std::string_view key;
  std::string_view members[3];
};

constexpr Fusion kFusions[] = {
    {"qkv", {"q_proj", "k_proj", "v_proj"}},
    {"qkv", {"query", "key", "value"}},
    {"qkv", {"wq", "wk", "wv"}},
    {"gate_up", {"gate_proj", "up_proj", "gate_proj"}},
    {"gate_up", {"w1", "w3", "w1"}},
    {"qkv_a", {"q_a_proj", "kv_a_proj_with_mqa", "q_a_proj"}},
};

}  // namespace

std::string scale_group(std::string_view module) {
  const std::string_view last = last_part(module);
  for (const Fusion& fusion : kFusions) {
    if (std::find(std::begin(fusion.members), std::end(fusion.members), last) !=
        std::end(fusion.members)) {
      return std::string(parent_of(module)) + "#" + std::string(fusion.key);
    }
  }
  return {};
}

std::string_view experts_of(std::string_view module) {
  constexpr std::string_view kExperts = "experts.";
  const size_t at = module.starts_with(kExperts) ? 0 : module.find(".experts.");
  if (at == std::string_view::npos) return {};
  const size_t end = module.find(kExperts, at) + kExperts.size();
  if (end >= module.size() || std::isdigit(static_cast<unsigned char>(module[end])) == 0) return {};
  return module.substr(0, end - 1);
}

std::string decision_group(std::string_view module) {
  const std::string_view experts = experts_of(module);
  return experts.empty() ? scale_group(module) : std::string(experts) + "#experts";
}

}  // namespace rowscale::checkpoint
