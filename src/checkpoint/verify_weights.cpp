#include "checkpoint/verify_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "checkpoint/element_reader.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/patterns.hpp"
#include "checkpoint/scale_names.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr int64_t kStrip = 1 << 20;  // bytes

// The first group that has weights; a group without them quantizes activations alone.
const QuantizedTensorConfig* weights_of(const QuantizationConfig& config) {
  for (const ConfigGroup& group : config.groups) {
    if (group.weights) return &*group.weights;
  }
  return nullptr;
}

// Empty: no such strategy.
std::vector<int64_t> wanted_scale_shape(const QuantizedTensorConfig& config,
                                        std::span<const int64_t> weight) {
  if (config.strategy == "tensor") return {1};
  if (weight.size() != 2) return {};
  if (config.strategy == "channel") return {weight[0], 1};
  if (config.strategy != "block" || config.block_structure.size() != 2) return {};
  const int64_t rows = config.block_structure[0];
  const int64_t columns = config.block_structure[1];
  return {(weight[0] + rows - 1) / rows, (weight[1] + columns - 1) / columns};
}

void check_pair(const Model& model, const TensorEntry& weight, Check* check) {
  check->add_item();
  std::optional<ScaleTensor> scale;
  try {
    scale = find_scale(model, weight.name);
  } catch (const Failure& two_spellings) {
    return check->add_problem(two_spellings.what());
  }
  if (!scale) return check->add_problem(fmt::format("{}: has no scale", weight.name));
  const TensorEntry& entry = model.entry(scale->place);
  if (scale->spelling != ScaleSpelling::weight_scale) {
    return check->add_problem(fmt::format(
        "{}: expected the name weight_scale for its scale, got {}", weight.name, entry.name));
  }
  const QuantizedTensorConfig* config = weights_of(model.quantization());
  if (config == nullptr) return;  // verify_config says so
  const std::vector<int64_t> wanted = wanted_scale_shape(*config, weight.shape);
  if (!std::equal(wanted.begin(), wanted.end(), entry.shape.begin(), entry.shape.end())) {
    check->add_problem(
        fmt::format("{}: expected the shape {} for a weight {} with a scale per {}, got {}",
                    entry.name, shape_text(wanted), shape_text(weight.shape),
                    shown(config->strategy), shape_text(entry.shape)));
  }
  if (entry.type != StoredType::f32 && entry.type != StoredType::bf16 &&
      entry.type != StoredType::f16) {
    check->add_problem(
        fmt::format("{}: expected F32, BF16 or F16, got {}", entry.name, to_string(entry.type)));
  }
}

bool is_fp8_weight(const TensorEntry& entry) {
  return entry.type == StoredType::f8_e4m3 && entry.name.ends_with(".weight");
}

// The list `ignore` of the configuration, whoever wrote it: an expression that cannot be matched
// here is a problem of the check, not the end of it.
class IgnoredModules {
 public:
  IgnoredModules(const std::vector<std::string>& ignore, Check* check) : check_(*check) {
    for (const std::string& text : ignore) {
      if (!text.starts_with("re:")) {
        names_.insert(text);
        continue;
      }
      tell(
          [&] { expressions_.push_back(std::make_unique<Patterns>(std::vector{text}, "ignore")); });
    }
  }

  bool hold(const std::string& module) {
    if (names_.count(module) != 0) return true;
    bool found = false;
    for (auto it = expressions_.begin(); it != expressions_.end() && !found;) {
      const bool could_be_matched = tell([&] { found = (*it)->match(module); });
      it = could_be_matched ? it + 1 : expressions_.erase(it);
    }
    return found;
  }

 private:
  template <class Work>
  bool tell(Work&& work) {
    try {
      work();
      return true;
    } catch (const Failure& failure) {
      check_.add_problem(failure.what());
      return false;
    }
  }

  Check& check_;
  std::unordered_set<std::string> names_;
  std::vector<std::unique_ptr<Patterns>> expressions_;
};

Check check_pairs(const Model& model) {
  Check check("pairs", "each FP8 weight has one scale of the right shape, and each scale a weight");
  IgnoredModules ignored(model.quantization().ignore, &check);
  for (const Place place : model.tensors()) {
    const TensorEntry& entry = model.entry(place);
    if (is_fp8_weight(entry)) {
      check_pair(model, entry, &check);
      if (ignored.hold(std::string(module_of(entry.name)))) {
        check.add_problem(fmt::format("{}: is FP8, and in the list `ignore`", entry.name));
      }
      continue;
    }
    if (entry.type == StoredType::f8_e4m3 || entry.type == StoredType::f8_e5m2) {
      check.add_problem(
          fmt::format("{}: {} that is no weight of a layer", entry.name, to_string(entry.type)));
      continue;
    }
    if (!is_scale_name(model, entry.name)) continue;
    check.add_item();
    const auto of = model.find(weight_of_scale(entry.name));
    if (!of || !is_fp8_weight(model.entry(*of))) {
      check.add_problem(fmt::format("{}: scales of no FP8 weight", entry.name));
    }
  }
  if (check.items() == 0) check.add_problem("the model has no FP8 weight");
  return check;
}

void check_codes(const TensorFile& file, const TensorEntry& entry, Check* check) {
  std::vector<uint8_t> codes(static_cast<size_t>(std::min(kStrip, entry.bytes())));
  for (int64_t first = 0; first < entry.bytes(); first += kStrip) {
    const int64_t count = std::min(kStrip, entry.bytes() - first);
    require_readable(file.read(entry.begin + first, count, codes.data()));
    const auto end = codes.begin() + count;
    const auto nan =
        std::find_if(codes.begin(), end, [](uint8_t code) { return (code & 0x7FU) == 0x7FU; });
    check->add_item(count);
    if (nan == end) continue;
    const int64_t at = first + (nan - codes.begin());
    return check->add_problem(fmt::format("{}: element {} is NaN", entry.name, at));
  }
}

void check_scales(const TensorFile& file, const TensorEntry& entry, Check* check) {
  if (!holds_floats(entry.type)) return;  // check_pair says so
  ElementReader reader(file, entry);
  const int64_t count = elements_of(entry);
  for (int64_t first = 0; first < count; first += kStrip / 4) {
    const auto scales = reader.read(first, std::min(kStrip / 4, count - first));
    check->add_item(static_cast<int64_t>(scales.size()));
    const auto bad = std::find_if(scales.begin(), scales.end(),
                                  [](float s) { return !std::isfinite(s) || s <= 0; });
    if (bad == scales.end()) continue;
    return check->add_problem(fmt::format("{}: scale {}: expected a positive number, got {}",
                                          entry.name, first + (bad - scales.begin()), *bad));
  }
}

Check check_index(const Model& model) {
  Check check("index", "the index and the files agree");
  if (!model.has_index()) {
    check.skip("one file, without an index");
    return check;
  }
  check.add_item(static_cast<int64_t>(model.tensors().size()));
  for (const Place place : model.stale()) {
    check.add_problem(fmt::format("{}: lies in {}, where the index does not have it",
                                  model.entry(place).name, model.shard_name(place.shard)));
  }
  int64_t bytes = 0;
  for (const Place place : model.tensors()) bytes += model.entry(place).bytes();
  const std::optional<int64_t> total = model.index_total_size();
  if (total && *total != bytes) {
    check.add_problem(
        fmt::format("{}: total_size: expected {}, got {}", model.index_name(), bytes, *total));
  }
  return check;
}

}  // namespace

std::vector<Check> verify_weights(Model& model) {
  Check scales("scales", "each scale is finite and positive");
  Check codes("codes", "no FP8 code is NaN");
  for (TensorFile& file : model.shards()) {
    require_readable(file.acquire());
    for (const TensorEntry& entry : file.tensors()) {
      if (entry.type == StoredType::f8_e4m3) check_codes(file, entry, &codes);
      if (is_scale_name(model, entry.name) || is_cache_scale_name(entry.name)) {
        check_scales(file, entry, &scales);
      }
    }
    file.release();
  }
  std::vector<Check> out;
  out.push_back(check_index(model));
  out.push_back(check_pairs(model));
  out.push_back(std::move(scales));
  out.push_back(std::move(codes));
  return out;
}

}  // namespace rowscale::checkpoint
