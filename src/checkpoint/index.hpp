// model.safetensors.index.json: which file each tensor lies in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_list.hpp"

namespace rowscale::checkpoint {

struct IndexEntry {
  std::string_view tensor;
  uint32_t shard = 0;
};

struct ShardIndex {
  std::vector<std::string> shards;  // in the order of their names
  std::vector<IndexEntry> tensors;  // in the order of their names
  Arena names;

  const IndexEntry* find(std::string_view tensor) const;  // nullptr: not there
};

// `name`: of the file, for messages. Throws Failure(input): no JSON, a weight_map that is none,
// a tensor that occurs twice, a shard that is no plain file name of a safetensors file.
ShardIndex parse_index(std::string_view text, const std::string& name);

}  // namespace rowscale::checkpoint
