// The grammar of a safetensors header as a SAX handler. A document tree of a header that may have
// 100 MB would cost gigabytes; this keeps only what a reader needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {

// The published JSON schema's own limit for sizes and offsets.
inline constexpr uint64_t kLargestInteger = uint64_t{1} << 48;
// Far more than any file has; without a limit a header could fill the memory with them.
inline constexpr size_t kMostMetadata = size_t{1} << 16;

// A tensor's name is kept once a header, an index and a plan. The longest names that files have are
// of some hundred bytes.
inline constexpr size_t kLongestName = 4096;
// Four are the most that models have; readers in Python take 64.
inline constexpr size_t kMostDimensions = 64;

bool has_control_character(std::string_view text);

// Each callback returns false to stop the parser; error() then says why.
class HeaderHandler {
 public:
  explicit HeaderHandler(SafetensorsHeader* out) : out_(out) {}

  const std::string& error() const { return error_; }

  bool null() {
    if (where_ == Where::tensors && name_ == kMetadata) return true;  // the reference accepts it
    return scalar("null");
  }
  bool boolean(bool) { return scalar("a boolean"); }
  bool number_integer(int64_t value) { return scalar("the integer " + std::to_string(value)); }
  bool number_float(double, const std::string& text) { return scalar("the number " + text); }
  bool binary(std::vector<uint8_t>&) { return scalar("binary data"); }
  bool number_unsigned(uint64_t value) {
    if (where_ != Where::shape && where_ != Where::offsets) {
      return scalar("the integer " + std::to_string(value));
    }
    if (value > kLargestInteger) {
      return fail(field() + ": expected integers of at most 2^48, got " + std::to_string(value));
    }
    if (where_ == Where::shape) {
      shape_.push_back(static_cast<int64_t>(value));
      if (shape_.size() <= kMostDimensions) return true;
      return fail(field() + ": expected at most " + std::to_string(kMostDimensions) +
                  " dimensions, got more");
    }
    if (offsets_ == 2) return fail(field() + ": expected 2 integers, got more");
    (offsets_++ == 0 ? entry_.begin : entry_.end) = static_cast<int64_t>(value);
    return true;
  }

  bool string(std::string& value) {
    if (where_ == Where::metadata) {
      out_->metadata[name_] = std::move(value);
      if (out_->metadata.size() <= kMostMetadata) return true;
      return fail("__metadata__: expected at most " + std::to_string(kMostMetadata) + " entries");
    }
    if (where_ == Where::entry && key_ == "dtype") {
      if (parse_type(value, &entry_.type)) return true;
      return fail(field() + ": expected a dtype of the format, got " + shown(value));
    }
    return scalar("the string " + shown(value));
  }

  bool key(std::string& value) {
    switch (where_) {
      case Where::tensors:
        return begin_value(value);
      case Where::metadata:
        return begin_metadata(value);
      case Where::entry:
        return begin_field(value);
      default:
        return true;  // of an unknown field
    }
  }

  bool start_object(std::size_t) {
    switch (where_) {
      case Where::document:
        where_ = Where::tensors;
        return true;
      case Where::tensors:
        where_ = name_ == kMetadata ? Where::metadata : Where::entry;
        return true;
      case Where::entry:
        return start_ignored("an object");
      default:
        return scalar("an object");
    }
  }

  bool start_array(std::size_t) {
    if (where_ != Where::entry) return scalar("an array");
    if (key_ == "shape") {
      where_ = Where::shape;
      return true;
    }
    if (key_ == "data_offsets") {
      where_ = Where::offsets;
      return true;
    }
    return start_ignored("an array");
  }

  bool end_object() {
    switch (where_) {
      case Where::entry:
        return end_entry();
      case Where::metadata:
        where_ = Where::tensors;
        return true;
      case Where::ignored:
        where_ = Where::entry;
        return true;
      default:
        return true;
    }
  }

  bool end_array() {
    if (where_ == Where::offsets && offsets_ != 2) {
      return fail(field() + ": expected 2 integers, got " + std::to_string(offsets_));
    }
    where_ = Where::entry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) {
    // "[json.exception...] parse error at ...: the reason; last read: bytes of the file"
    std::string text = error.what();
    text = text.substr(0, text.find("; last read"));
    const size_t prefix = text.find(": ");
    if (prefix != std::string::npos) text = text.substr(prefix + 2);
    return fail("header: expected JSON in UTF-8, got an error at byte " + std::to_string(position) +
                ": " + shown(text));
  }

 private:
  // What the parser is inside of; nothing may nest deeper than shape, offsets and ignored.
  enum class Where { document, tensors, metadata, entry, shape, offsets, ignored };
  static constexpr const char* kMetadata = "__metadata__";

  bool fail(std::string message) {
    error_ = std::move(message);
    return false;
  }

  std::string field() const { return "tensor " + shown(name_) + ": " + key_; }

  // A value that the grammar has no place for, unless an unknown field holds it.
  bool scalar(const std::string& came) {
    switch (where_) {
      case Where::document:
        return fail("header: expected an object, got " + came);
      case Where::tensors:
        return fail(shown(name_) + ": expected an object, got " + came);
      case Where::metadata: {
        return fail("__metadata__: expected a string for " + shown(name_) + ", got " + came);
      }
      case Where::shape:
      case Where::offsets:
        return fail(field() + ": expected unsigned integers, got " + came);
      case Where::ignored: {
        if (came != "an object" && came != "an array") return true;
        return fail(field() + ": expected at most 3 levels of nesting, got " + came);
      }
      case Where::entry:
        break;
    }
    if (!is_known_field()) return true;
    const char* expected = key_ == "dtype" ? "a string" : "an array of integers";
    return fail(field() + ": expected " + expected + ", got " + came);
  }

  bool start_ignored(const char* came) {
    if (is_known_field()) return scalar(came);
    where_ = Where::ignored;
    return true;
  }

  bool is_known_field() const {
    return key_ == "dtype" || key_ == "shape" || key_ == "data_offsets";
  }

  bool begin_value(std::string& name) {
    name_ = std::move(name);
    if (name_ == kMetadata) {
      if (std::exchange(seen_metadata_, true)) return fail("__metadata__: appears twice");
      return true;
    }
    if (name_.size() > kLongestName) {
      return fail("tensor " + shown(name_) + ": expected a name of at most " +
                  std::to_string(kLongestName) + " bytes, got " + std::to_string(name_.size()));
    }
    if (has_control_character(name_)) {
      return fail("tensor " + shown(name_) + ": expected a name without control characters");
    }
    entry_ = TensorEntry{};
    shape_.clear();
    offsets_ = 0;
    seen_dtype_ = seen_shape_ = seen_offsets_ = false;
    return true;
  }

  bool begin_metadata(std::string& name) {
    name_ = std::move(name);
    if (out_->metadata.count(name_) == 0) return true;
    return fail("__metadata__: the name " + shown(name_) + " appears twice");
  }

  bool begin_field(std::string& name) {
    key_ = std::move(name);
    if (!is_known_field()) {
      key_ = shown(key_);  // it may be shown
      return true;
    }
    bool& seen = key_ == "dtype" ? seen_dtype_ : key_ == "shape" ? seen_shape_ : seen_offsets_;
    if (std::exchange(seen, true)) return fail(field() + ": appears twice");
    return true;
  }

  bool end_entry() {
    const char* missing = !seen_dtype_     ? "dtype"
                          : !seen_shape_   ? "shape"
                          : !seen_offsets_ ? "data_offsets"
                                           : nullptr;
    if (missing != nullptr) {
      return fail("tensor " + shown(name_) + ": expected a field " + missing + ", got none");
    }
    entry_.name = name_;
    entry_.shape = shape_;
    out_->tensors.add(entry_);
    where_ = Where::tensors;
    return true;
  }

  SafetensorsHeader* out_;
  std::string error_;
  Where where_ = Where::document;
  std::string name_;   // of the tensor, or of the metadata
  std::string key_;    // of the entry's field
  TensorEntry entry_;  // its name and shape lie in name_ and shape_
  std::vector<int64_t> shape_;
  int offsets_ = 0;
  bool seen_metadata_ = false;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
};

}  // namespace rowscale::checkpoint
