#include "checkpoint/copy_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/failure.hpp"
#include "checkpoint/scale_names.hpp"
#include "checkpoint/strip_work.hpp"

namespace rowscale::checkpoint {
namespace {

void require_no_nan(const TensorEntry& entry, const Task& task, const std::byte* bytes) {
  const std::byte* end = bytes + task.bytes;
  const std::byte* nan = std::find_if(
      bytes, end, [](std::byte code) { return (code & std::byte{0x7F}) == std::byte{0x7F}; });
  if (nan == end) return;
  const int64_t at = task.begin + (nan - bytes);
  const int64_t columns = entry.shape.back();
  refuse_data("tensor {}: expected finite numbers, got NaN at row {}, column {}", shown(entry.name),
              at / columns, at % columns);
}

void require_positive(const TensorEntry& entry, const Task& task, const std::byte* bytes) {
  TensorEntry piece = entry;
  piece.end = piece.begin + task.bytes;
  const std::vector<float> scales = widened_scales(piece, bytes);  // refuses what is not finite
  const auto bad = std::find_if(scales.begin(), scales.end(), [](float s) { return s <= 0; });
  if (bad == scales.end()) return;
  const int64_t first = task.begin * 8 / bits_per_element(entry.type);
  refuse_data("tensor {}: expected positive scales, got {} at {}", shown(entry.name), *bad,
              first + (bad - scales.begin()));
}

}  // namespace

void require_sound_copy(const Model& model, const Task& task, const std::byte* bytes) {
  const TensorEntry& entry = model.entry(task.source);
  if (entry.type == StoredType::f8_e4m3) {
    require_no_nan(entry, task, bytes);
  } else if (is_scale_name(model, entry.name)) {
    require_positive(entry, task, bytes);
  }
}

}  // namespace rowscale::checkpoint
