// What is in a file or folder of tensors, from its headers, its configuration and its scales.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/model.hpp"
#include "checkpoint/scale_statistics.hpp"

namespace rowscale::checkpoint {

struct TypeShare {
  StoredType type = StoredType::u8;
  int64_t tensors = 0;
  int64_t bytes = 0;
};

// Tensors that differ only in the numbers of their names.
struct TensorGroup {
  std::string name;  // "model.layers.{0-31}.mlp.up_proj.weight"
  StoredType type = StoredType::u8;
  std::vector<int64_t> shape;
  int64_t tensors = 0;
  int64_t bytes = 0;
};

// Models have some hundred; a header can have a million.
inline constexpr size_t kMostGroups = 10'000;

struct Inspection {
  int64_t tensors = 0;
  int64_t bytes = 0;                // of the tensors' data
  std::vector<TypeShare> types;     // the most bytes first
  std::vector<TensorGroup> groups;  // in the order of their names; at most kMostGroups
  int64_t ungrouped_tensors = 0;    // of further groups
  ScaleStatistics scales;
};

// Throws Failure(unreadable).
Inspection inspect(Model& model);

}  // namespace rowscale::checkpoint
