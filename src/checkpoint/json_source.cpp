#include "checkpoint/json_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/read_at.hpp"
#include "checkpoint/safetensors.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr int64_t kPiece = 64 << 10;

Status malformed(std::string message) {
  return {StatusCode::invalid_argument, std::move(message)};
}

Status nul_at(int64_t position) {
  return malformed(fmt::format("expected JSON, got a NUL at byte {}", position));
}

}  // namespace

JsonSource::JsonSource(int fd, int64_t offset, int64_t bytes)
    : fd_(fd), next_(offset), left_(bytes) {
  buffer_.resize(static_cast<size_t>(std::min(bytes, kPiece)));
  refill();
}

Status JsonSource::check_start() const {
  if (!failure_.ok()) return failure_;
  const size_t first = piece_.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && piece_[first] == '{') return {};
  const std::string_view came = first == std::string_view::npos ? "" : piece_.substr(first, 8);
  if (!came.empty() && came.front() == '\0') return nul_at(static_cast<int64_t>(first));
  return malformed(fmt::format("expected an object, got {}", shown(came)));
}

Status JsonSource::outcome() const {
  if (!failure_.ok()) return failure_;
  return nul_ < 0 ? Status() : nul_at(nul_);
}

// The parser takes it for the end of the text.
void JsonSource::stop() {
  failure_ = malformed(
      fmt::format("expected texts and numbers of at most {} bytes, got a longer one at byte {}",
                  kLongestToken, begin_));
  piece_ = piece_.substr(0, 1);  // advance() takes one more
  left_ = 0;
}

void JsonSource::refill() {
  const int64_t bytes = std::min(left_, kPiece);
  failure_ = read_at(fd_, next_, bytes, buffer_.data());
  left_ = failure_.ok() ? left_ - bytes : 0;
  next_ += bytes;
  piece_ = failure_.ok() ? std::string_view(buffer_.data(), static_cast<size_t>(bytes))
                         : std::string_view();
}

}  // namespace rowscale::checkpoint
