#include "checkpoint/scale_names.hpp"

#include <algorithm>
#include <iterator>

#include "checkpoint/failure.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr std::string_view kWeight = ".weight";

struct SpellingRow {
  ScaleSpelling spelling;
  std::string_view suffix;  // in the place of ".weight"
};

constexpr SpellingRow kSpellings[] = {
    {ScaleSpelling::weight_scale, ".weight_scale"},
    {ScaleSpelling::weight_scale_inv, ".weight_scale_inv"},
    {ScaleSpelling::scale, ".scale"},
};

}  // namespace

std::string_view module_of(std::string_view tensor) {
  if (tensor.ends_with(kWeight)) tensor.remove_suffix(kWeight.size());
  return tensor;
}

std::optional<ScaleTensor> find_scale(const Model& model, std::string_view tensor) {
  std::optional<ScaleTensor> found;
  if (!tensor.ends_with(kWeight)) return found;
  for (const SpellingRow& row : kSpellings) {
    const std::string name = std::string(module_of(tensor)) + std::string(row.suffix);
    const std::optional<Place> place = model.find(name);
    if (!place) continue;
    if (found) {
      refuse_input("tensor {}: expected one tensor of scales, got {} and {}", shown(tensor),
                   shown(model.entry(found->place).name), shown(name));
    }
    found = ScaleTensor{*place, row.spelling};
  }
  return found;
}

std::string weight_of_scale(std::string_view tensor) {
  for (const SpellingRow& row : kSpellings) {
    if (!tensor.ends_with(row.suffix)) continue;
    tensor.remove_suffix(row.suffix.size());
    return std::string(tensor) + std::string(kWeight);
  }
  return {};
}

bool is_scale_name(const Model& model, std::string_view tensor) {
  const std::string weight = weight_of_scale(tensor);
  if (weight.empty()) return false;
  if (!tensor.ends_with(".scale")) return true;
  const auto place = model.find(weight);
  return place && model.entry(*place).type == StoredType::f8_e4m3;
}

bool is_cache_scale_name(std::string_view tensor) {
  constexpr std::string_view kEndings[] = {".k_scale",
                                           ".v_scale",
                                           ".q_scale",
                                           ".k_proj.output_scale",
                                           ".v_proj.output_scale",
                                           ".q_proj.output_scale"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return tensor.ends_with(ending); });
}

}  // namespace rowscale::checkpoint
