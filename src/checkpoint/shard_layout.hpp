// Where everything lies in an output shard: known before any data is read, so that strips are
// written to their places and each file is hashed while it is written.
//
// Order: first, as they come in the source, all tensors whose bytes are a multiple of 8; these are
// written from the front to the back. Behind them the scales and the odd ones, the widest elements
// first. So every tensor is aligned to its elements.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

struct Slot {
  int64_t begin = 0;  // bytes, in the file
  int64_t bytes = 0;
};

class ShardLayout {
 public:
  // Throws Failure(input) where the header would be longer than the format allows.
  ShardLayout(const Plan& plan, const Model& model, uint32_t shard);

  // The slots of what the shard's i-th tensor becomes, in the order of outputs_of().
  const Slot* slots_of(uint32_t tensor_in_shard) const {
    return slots_.data() + first_slot_[tensor_in_shard];
  }
  uint32_t slot_count(uint32_t tensor_in_shard) const {
    return first_slot_[tensor_in_shard + 1] - first_slot_[tensor_in_shard];
  }
  // Slots below this are written in order; those at or above it are the tail.
  int64_t tail_begin() const { return tail_begin_; }
  int64_t header_bytes() const { return header_bytes_; }  // with the 8 of its length
  int64_t file_bytes() const { return file_bytes_; }
  int64_t payload_bytes() const { return file_bytes_ - header_bytes_; }

  // The file's first header_bytes(), in pieces.
  void write_header(const std::function<void(std::string_view)>& sink) const;

 private:
  void emit(const std::function<void(std::string_view)>& sink) const;

  const Plan& plan_;
  const Model& model_;
  uint32_t shard_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> first_slot_;
  int64_t tail_begin_ = 0;
  int64_t header_bytes_ = 0;
  int64_t file_bytes_ = 0;
};

}  // namespace rowscale::checkpoint
