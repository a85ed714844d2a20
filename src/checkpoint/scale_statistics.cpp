#include "checkpoint/scale_statistics.hpp"

#include <algorithm>
#include <cmath>

#include "checkpoint/element_reader.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/scale_names.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr int kLowest = -150;  // exponent of binades[0]
constexpr int64_t kStrip = 1 << 16;

bool is_fp8(StoredType type) {
  return type == StoredType::f8_e4m3 || type == StoredType::f8_e5m2;
}

// Files older than the dtype hold UE8M0 as bytes, and the configuration says so.
StoredType number_type(const Model& model, const TensorEntry& entry) {
  const bool is_ue8m0 =
      entry.type == StoredType::u8 && model.quantization().scale_format == "ue8m0";
  return is_ue8m0 ? StoredType::f8_e8m0 : entry.type;
}

bool is_scale(const Model& model, const TensorEntry& entry) {
  if (!holds_floats(number_type(model, entry))) return false;
  const std::string weight = weight_of_scale(entry.name);
  if (weight.empty()) return false;
  const auto place = model.find(weight);
  return place && is_fp8(model.entry(*place).type);
}

}  // namespace

void ScaleStatistics::add(std::span<const float> values) {
  for (const float value : values) {
    ++scales;
    if (!std::isfinite(value)) {
      ++not_finite;
    } else if (value == 0) {
      ++zero;
    } else if (value < 0) {
      ++negative;
    } else {
      smallest = sound() == 1 ? value : std::min(smallest, value);
      largest = std::max(largest, value);
      ++binades[static_cast<size_t>(std::ilogb(value) - kLowest)];
    }
  }
}

int ScaleStatistics::median_binade() const {
  int64_t below = 0;
  size_t i = 0;
  while (below + binades[i] <= (sound() - 1) / 2) below += binades[i++];
  return static_cast<int>(i) + kLowest;
}

ScaleStatistics scale_statistics(Model& model) {
  ScaleStatistics out;
  for (uint32_t shard = 0; shard < model.shards().size(); ++shard) {
    TensorFile& file = model.shards()[shard];
    require_readable(file.acquire());
    for (const TensorEntry& entry : file.tensors()) {
      if (!is_scale(model, entry)) continue;
      ++out.tensors;
      TensorEntry numbers = entry;
      numbers.type = number_type(model, entry);
      ElementReader reader(file, numbers);
      const int64_t count = elements_of(entry);
      for (int64_t first = 0; first < count; first += kStrip) {
        out.add(reader.read(first, std::min(kStrip, count - first)));
      }
    }
    file.release();
  }
  return out;
}

}  // namespace rowscale::checkpoint
