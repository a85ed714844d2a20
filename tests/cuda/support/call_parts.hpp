// What every call over a lane is made of: slots for codes, scales and row counts, and the words of
// a failure for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rowscale/rowscale.hpp"
#include "tests/cuda/support/lane.hpp"

namespace rowscale::test {

using Shape = std::vector<int64_t>;

// Contiguous, or with strides; no data.
TensorView shape_view(DType dtype, const Shape& shape);
TensorView shape_view(DType dtype, const Shape& shape, const Shape& strides);

// Bytes that a view without data takes, and where in them its first element lies.
struct Extent {
  int64_t bytes = 0;
  int64_t offset = 0;
};
Extent extent_of(const TensorView& view);

// Where the view lies in memory that is read, `begin` bytes behind its begin. Throws
// std::runtime_error where it does not lie inside.
TensorView window_on(const Side& side, const TensorView& view, const Shared& memory, int64_t begin);

Slot reserve_counts(Lane& lane, const std::vector<int32_t>& counts);
TensorView with_counts(const TensorView& view, const Side& side, const Slot& counts);
std::string counts_text(const std::vector<int32_t>& counts);

// An output of the shape and strides of a view.
Slot reserve_rows(Lane& lane, const char* name, const TensorView& view, int64_t shift);
// The same, with content: an input, or what is updated in place.
Slot fill_rows(Lane& lane, const char* name, const TensorView& view, const std::byte* content,
               int64_t shift);

// Scales that the call writes.
Slot reserve_scales(Lane& lane, const char* name, const TensorView& codes, const Recipe& recipe,
                    int64_t shift);
// Scales that it reads: a window of the pool.
Slot fill_scales(Lane& lane, const char* name, const TensorView& codes, const Recipe& recipe,
                 uint64_t seed, int64_t shift);
// Those of a quantization: read where the recipe says that they are given, else written.
Slot quantizer_scales(Lane& lane, const char* name, const TensorView& codes, const Recipe& recipe,
                      uint64_t seed, int64_t shift);

}  // namespace rowscale::test
