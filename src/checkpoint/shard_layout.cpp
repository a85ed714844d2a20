#include "checkpoint/shard_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/failure.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr int64_t kAlignment = 8;
constexpr int64_t kLargestHeader = 100'000'000;  // of the reference, for reading and writing

bool is_scale(const OutputTensor& out) {
  return out.name.ends_with("_scale");
}

// Widest elements first: 8, 4, 2, 1 bytes.
int tail_class(StoredType type) {
  const int64_t bits = bits_per_element(type);
  return bits >= 64 ? 0 : bits >= 32 ? 1 : bits >= 16 ? 2 : 3;
}
constexpr int kTailClasses = 4;

}  // namespace

ShardLayout::ShardLayout(const Plan& plan, const Model& model, uint32_t shard)
    : plan_(plan), model_(model), shard_(shard) {
  const uint32_t first = plan.shard_begin[shard];
  const uint32_t last = plan.shard_begin[shard + 1];
  first_slot_.reserve(last - first + 1);
  first_slot_.push_back(0);
  std::vector<int8_t> classes;  // of each slot: -1 in order, else the tail's
  for (uint32_t i = first; i < last; ++i) {
    for (const OutputTensor& out : outputs_of(plan, model, plan.tensors[i])) {
      const bool in_order = out.bytes % kAlignment == 0 && !is_scale(out);
      classes.push_back(static_cast<int8_t>(in_order ? -1 : tail_class(out.type)));
      slots_.push_back({0, out.bytes});
    }
    first_slot_.push_back(static_cast<uint32_t>(slots_.size()));
  }
  // Offsets from the start of the data first: the header's length depends on them.
  int64_t end = 0;
  for (int wanted = -1; wanted < kTailClasses; ++wanted) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (classes[i] != wanted) continue;
      slots_[i].begin = end;
      end += slots_[i].bytes;
    }
    if (wanted < 0) tail_begin_ = end;
  }
  int64_t length = 0;
  emit([&](std::string_view piece) { length += static_cast<int64_t>(piece.size()); });
  length = (length + kAlignment - 1) / kAlignment * kAlignment;
  if (length > kLargestHeader) {
    refuse_input("{}: its output would need a header of {} bytes, the format allows {}",
                 model.shard_name(shard), length, kLargestHeader);
  }
  header_bytes_ = kAlignment + length;
  for (Slot& slot : slots_) slot.begin += header_bytes_;
  tail_begin_ += header_bytes_;
  file_bytes_ = header_bytes_ + end;
}

void ShardLayout::emit(const std::function<void(std::string_view)>& sink) const {
  sink(R"({"__metadata__":{"format":"pt"})");
  const uint32_t first = plan_.shard_begin[shard_];
  for (uint32_t i = 0; i + 1 < first_slot_.size(); ++i) {
    const Slot* slot = slots_of(i);
    for (const OutputTensor& out : outputs_of(plan_, model_, plan_.tensors[first + i])) {
      const int64_t begin = slot->begin - header_bytes_;
      sink(fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                       nlohmann::json(out.name).dump(), to_string(out.type),
                       fmt::join(out.shape, ","), begin, begin + slot->bytes));
      ++slot;
    }
  }
  sink("}");
}

void ShardLayout::write_header(const std::function<void(std::string_view)>& sink) const {
  const auto length = static_cast<uint64_t>(header_bytes_ - kAlignment);
  std::string raw;
  for (int i = 0; i < 8; ++i) raw += static_cast<char>(length >> (8 * i) & 0xFFU);
  sink(raw);
  uint64_t written = 0;
  emit([&](std::string_view piece) {
    sink(piece);
    written += piece.size();
  });
  sink(std::string(length - written, ' '));
}

}  // namespace rowscale::checkpoint
