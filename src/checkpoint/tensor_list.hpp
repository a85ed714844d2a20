// The tensors of a safetensors header, compactly: a header of 100 MB, the largest that the format
// allows, may name two million. Names and shapes lie in an arena, entries are views into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/stored_type.hpp"

namespace rowscale::checkpoint {

// Memory that is given back all at once; what lies in it never moves.
class Arena {
 public:
  std::string_view keep(std::string_view text) {
    if (text.empty()) return {};
    char* at = take(text.size(), 1);
    std::memcpy(at, text.data(), text.size());
    return {at, text.size()};
  }
  std::span<const int64_t> keep(std::span<const int64_t> values) {
    if (values.empty()) return {};
    char* at = take(values.size_bytes(), alignof(int64_t));
    std::memcpy(at, values.data(), values.size_bytes());
    return {reinterpret_cast<const int64_t*>(at), values.size()};
  }

 private:
  static constexpr size_t kChunk = size_t{256} << 10;

  char* take(size_t bytes, size_t alignment) {
    size_t skip = used_ % alignment == 0 ? 0 : alignment - used_ % alignment;
    if (chunks_.empty() || skip + bytes > size_ - used_) {
      size_ = bytes > kChunk ? bytes : kChunk;
      chunks_.push_back(std::make_unique_for_overwrite<char[]>(size_));
      used_ = skip = 0;
    }
    char* at = chunks_.back().get() + used_ + skip;
    used_ += skip + bytes;
    return at;
  }

  std::vector<std::unique_ptr<char[]>> chunks_;
  size_t size_ = 0;  // of the last chunk
  size_t used_ = 0;
};

struct TensorEntry {
  std::string_view name;
  std::span<const int64_t> shape;  // empty: a scalar; zero-sized dimensions occur
  int64_t begin = 0;               // bytes, from the start of the data
  int64_t end = 0;
  StoredType type = StoredType::u8;

  int64_t bytes() const { return end - begin; }
};

// Movable; its entries stay valid when it is moved.
class TensorList {
 public:
  // Keeps copies of name and shape.
  void add(TensorEntry entry) {
    entry.name = arena_.keep(entry.name);
    entry.shape = arena_.keep(entry.shape);
    entries_.push_back(entry);
  }

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const TensorEntry& operator[](size_t i) const { return entries_[i]; }
  const TensorEntry& back() const { return entries_.back(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }

 private:
  std::deque<TensorEntry> entries_;  // grows without a second copy
  Arena arena_;
};

}  // namespace rowscale::checkpoint
