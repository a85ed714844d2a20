#include "tests/cuda/support/call_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "tests/cuda/support/data.hpp"
#include "tests/support/calls.hpp"

namespace rowscale::test {
namespace {

TensorView counts_view(const std::vector<int32_t>& counts) {
  return shape_view(DType::i32, {static_cast<int64_t>(counts.size())});
}

ScaleSpec spec_for(const TensorView& codes, const Recipe& recipe) {
  ScaleSpec spec;
  const Status status = scale_spec(codes, recipe, &spec);
  if (!status.ok()) throw std::runtime_error(status.message());
  return spec;
}

TensorView scale_shape(const ScaleSpec& spec) {
  return spec.view(static_cast<void*>(nullptr));
}

}  // namespace

TensorView shape_view(DType dtype, const Shape& shape) {
  return view_of(nullptr, dtype, shape);
}

TensorView shape_view(DType dtype, const Shape& shape, const Shape& strides) {
  TensorView view = shape_view(dtype, shape);
  std::copy(strides.begin(), strides.end(), view.strides);
  return view;
}

Extent extent_of(const TensorView& view) {
  int64_t low = 0;
  int64_t high = 0;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 0) return {};
    const int64_t reach = (view.shape[i] - 1) * view.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const int64_t size = element_size(view.dtype);
  return {(high - low + 1) * size, -low * size};
}

TensorView window_on(const Side& side, const TensorView& view, const Shared& memory,
                     int64_t begin) {
  const Extent extent = extent_of(view);
  if (begin + extent.bytes > memory.size) {
    throw std::runtime_error(to_string(view) + " lies beyond its pool");
  }
  return side.view(view, memory, begin + extent.offset);
}

Slot reserve_counts(Lane& lane, const std::vector<int32_t>& counts) {
  if (counts.empty()) return {};
  return lane.fill("row counts", counts_view(counts),
                   reinterpret_cast<const std::byte*>(counts.data()),
                   static_cast<int64_t>(counts.size()) * 4);
}

TensorView with_counts(const TensorView& view, const Side& side, const Slot& counts) {
  if (counts.size == 0) return view;
  return view.with_row_counts(reinterpret_cast<const int32_t*>(side.at(counts)));
}

std::string counts_text(const std::vector<int32_t>& counts) {
  constexpr size_t kShown = 16;
  if (counts.empty()) return "";
  return fmt::format(
      " counts [{}{}]",
      fmt::join(counts.begin(),
                counts.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, counts.size())),
                ", "),
      counts.size() > kShown ? ", ..." : "");
}

Slot reserve_rows(Lane& lane, const char* name, const TensorView& view, int64_t shift) {
  const Extent extent = extent_of(view);
  return lane.reserve(name, view, extent.bytes, extent.offset, shift);
}

Slot fill_rows(Lane& lane, const char* name, const TensorView& view, const std::byte* content,
               int64_t shift) {
  const Extent extent = extent_of(view);
  Slot slot = lane.fill(name, view, content, extent.bytes, shift);
  slot.offset = extent.offset;
  return slot;
}

Slot reserve_scales(Lane& lane, const char* name, const TensorView& codes, const Recipe& recipe,
                    int64_t shift) {
  const ScaleSpec spec = spec_for(codes, recipe);
  return lane.reserve(name, scale_shape(spec), scale_bytes(spec), 0, shift);
}

Slot fill_scales(Lane& lane, const char* name, const TensorView& codes, const Recipe& recipe,
                 uint64_t seed, int64_t shift) {
  const ScaleSpec spec = spec_for(codes, recipe);
  const std::vector<std::byte>& pool = scale_pool(recipe.encoding);
  const int64_t bytes = scale_bytes(spec);
  const int64_t begin = window(seed, static_cast<int64_t>(pool.size()) - bytes, 4);
  return lane.fill(name, scale_shape(spec), pool.data() + begin, bytes, shift);
}

Slot quantizer_scales(Lane& lane, const char* name, const TensorView& codes, const Recipe& recipe,
                      uint64_t seed, int64_t shift) {
  return recipe.scale_source == ScaleSource::given
             ? fill_scales(lane, name, codes, recipe, seed, shift)
             : reserve_scales(lane, name, codes, recipe, shift);
}

}  // namespace rowscale::test
