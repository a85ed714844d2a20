// JSON text of any length for a SAX parser, in pieces, so that it never lies in memory as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rowscale/status.hpp"

namespace rowscale::checkpoint {

// Bytes of a string or a number, or of white space. The parser keeps two copies of each, which grow
// by doubling; the longest that a real file has are texts of a few megabytes in __metadata__.
inline constexpr int64_t kLongestToken = int64_t{16} << 20;

// Watches for what the parser would let pass, a NUL, which it takes for the end, and a byte order
// mark; and for what would fill the memory.
class JsonSource {
 public:
  explicit JsonSource(std::string_view json) : piece_(json) {}
  JsonSource(int fd, int64_t offset, int64_t bytes);
  JsonSource(const JsonSource&) = delete;
  JsonSource& operator=(const JsonSource&) = delete;
  ~JsonSource() = default;

  bool at_end() const { return piece_.empty(); }
  char head() const { return piece_.front(); }
  void advance() {
    follow(piece_.front());
    ++position_;
    piece_.remove_prefix(1);
    if (piece_.empty() && left_ > 0) refill();
  }

  Status check_start() const;
  // What went wrong beside the grammar, once the parser has stopped.
  Status outcome() const;

 private:
  void follow(char c) {
    if (c == '\0' && nul_ < 0) nul_ = position_;
    if (in_string_) {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (c == '\\') {
        is_escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
        begin_ = position_;
      }
    } else if (c == '"' || c == ',' || c == ':' || c == '{' || c == '}' || c == '[' || c == ']') {
      in_string_ = c == '"';
      begin_ = position_;
    }
    if (position_ - begin_ > kLongestToken) stop();
  }
  void stop();
  void refill();

  std::string_view piece_;
  std::string buffer_;
  int fd_ = -1;
  int64_t next_ = 0;      // in the file
  int64_t left_ = 0;      // bytes not yet read
  int64_t position_ = 0;  // in the text
  int64_t begin_ = 0;     // of the token
  bool in_string_ = false;
  bool is_escaped_ = false;
  int64_t nul_ = -1;
  Status failure_;
};

// An input iterator over a source, as the parser wants it; the default one is the end.
class JsonIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  JsonIterator() = default;
  explicit JsonIterator(JsonSource* source) : source_(source) {}
  char operator*() const { return source_->head(); }
  JsonIterator& operator++() {
    source_->advance();
    return *this;
  }
  void operator++(int) { source_->advance(); }
  friend bool operator==(const JsonIterator& a, const JsonIterator& b) {
    return a.at_end() == b.at_end();
  }

 private:
  bool at_end() const { return source_ == nullptr || source_->at_end(); }
  JsonSource* source_ = nullptr;
};

// The text through the parser to `handler`, which stops it by returning false and then says why
// itself. invalid_argument: the text is none that a parser should see; the message does not say of
// what.
template <class Handler>
Status parse_json(JsonSource* source, Handler* handler) {
  if (Status status = source->check_start(); !status.ok()) return status;
  static_cast<void>(nlohmann::json::sax_parse(JsonIterator(source), JsonIterator(), handler));
  return source->outcome();
}

}  // namespace rowscale::checkpoint
