// model.safetensors.index.json: which file each tensor lies in.
#pragma once

#include <cstdint>
#include <optional>
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
  std::optional<int64_t> total_size;  // of its metadata, where that is a whole number

  const IndexEntry* find(std::string_view tensor) const;  // nullptr: not there
};

// Reads the file in pieces: of its text nothing stays in memory but the names. Throws
// Failure(input): no JSON, a weight_map that is none, a tensor that occurs twice, a shard that is
// no plain file name of a safetensors file.
ShardIndex read_index(const std::string& path);

}  // namespace rowscale::checkpoint
