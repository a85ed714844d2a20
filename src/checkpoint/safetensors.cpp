#include "checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <numeric>
#include <system_error>
#include <tuple>
#include <utility>

#include "checkpoint/file_time.hpp"
#include "checkpoint/header_handler.hpp"
#include "checkpoint/json_source.hpp"
#include "checkpoint/read_at.hpp"

namespace rowscale::checkpoint {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // of the reference, for reading and writing
constexpr size_t kLargestShown = 120;             // bytes of a foreign text in a message

Status malformed(std::string message) {
  return {StatusCode::invalid_argument, std::move(message)};
}

bool is_control(unsigned char c) {
  return c < 0x20 || c == 0x7F;
}

// U+0080 .. U+009F, which terminals obey too. `text` is UTF-8.
bool is_c1_control(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]) == 0xC2 && i + 1 < text.size() &&
         static_cast<unsigned char>(text[i + 1]) < 0xA0;
}

// Zero-sized dimensions count as 1 for the overflow: a reader that multiplies in another order
// must not be surprised either.
bool checked_bytes(const TensorEntry& entry, int64_t* bytes) {
  int64_t bound = bits_per_element(entry.type);
  int64_t bits = bound;
  for (const int64_t size : entry.shape) {
    if (__builtin_mul_overflow(bound, std::max<int64_t>(size, 1), &bound)) return false;
    bits *= size;  // no overflow: |bits| <= bound
  }
  *bytes = bits / 8;
  return bits % 8 == 0;
}

std::string shape_text(const TensorEntry& entry) {
  const auto shape = entry.shape;
  const size_t count = std::min<size_t>(shape.size(), 16);
  return fmt::format("{} [{}{}]", to_string(entry.type),
                     fmt::join(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(count), ", "),
                     count < shape.size() ? ", ..." : "");
}

Status check_size(const TensorEntry& entry) {
  if (entry.end < entry.begin) {
    return malformed(fmt::format("tensor {}: data_offsets: expected the end at or after {}, got {}",
                                 shown(entry.name), entry.begin, entry.end));
  }
  int64_t bytes = 0;
  if (!checked_bytes(entry, &bytes)) {
    return malformed(fmt::format("tensor {}: expected whole bytes, fewer than 2^60, got {}",
                                 shown(entry.name), shape_text(entry)));
  }
  if (bytes != entry.end - entry.begin) {
    return malformed(
        fmt::format("tensor {}: expected {} bytes for {}, got data_offsets of {} bytes",
                    shown(entry.name), bytes, shape_text(entry), entry.end - entry.begin));
  }
  return {};
}

// `tensors` in the order of their offsets.
Status check_layout(const TensorList& tensors, int64_t data_bytes) {
  int64_t end = 0;
  for (const TensorEntry& entry : tensors) {
    if (Status status = check_size(entry); !status.ok()) return status;
    if (entry.begin != end) {
      return malformed(fmt::format(
          "tensor {}: data_offsets: expected to begin at {}, where the tensor before it ends, "
          "got {}: {}",
          shown(entry.name), end, entry.begin, entry.begin > end ? "a hole" : "an overlap"));
    }
    end = entry.end;
  }
  if (end == data_bytes) return {};
  const std::string last = tensors.empty() ? "header" : "tensor " + shown(tensors.back().name);
  return malformed(fmt::format("{}: expected the tensors to end where the data ends, at {}, got {}",
                               last, data_bytes, end));
}

// Indices of tensors, by name.
std::vector<uint32_t> name_order(const TensorList& tensors) {
  std::vector<uint32_t> order(tensors.size());  // a header of 100 MB has fewer than 2^32
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
  return order;
}

Status check_names(const TensorList& tensors) {
  const std::vector<uint32_t> order = name_order(tensors);
  for (size_t i = 1; i < order.size(); ++i) {
    const std::string_view name = tensors[order[i]].name;
    if (name == tensors[order[i - 1]].name) {
      return malformed(fmt::format("tensor {}: appears twice", shown(name)));
    }
  }
  return {};
}

std::string errno_text() {
  return std::generic_category().message(errno);
}

Status parse(JsonSource* source, int64_t data_bytes, SafetensorsHeader* out) {
  SafetensorsHeader header;
  HeaderHandler handler(&header);
  if (Status status = parse_json(source, &handler); !status.ok()) {
    return malformed("header: " + status.message());
  }
  if (!handler.error().empty()) return malformed(handler.error());
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  if (Status status = check_names(header.tensors); !status.ok()) return status;
  if (Status status = check_layout(header.tensors, data_bytes); !status.ok()) return status;
  *out = std::move(header);
  return {};
}

Status read_header_length(int fd, int64_t file_bytes, int64_t* length_out) {
  if (file_bytes < kLengthBytes) {
    return malformed(fmt::format("expected at least {} bytes, got {}", kLengthBytes, file_bytes));
  }
  unsigned char raw[kLengthBytes];
  if (Status status = read_at(fd, 0, kLengthBytes, reinterpret_cast<char*>(raw)); !status.ok()) {
    return status;
  }
  if (std::memcmp(raw, "version ", kLengthBytes) == 0) {
    return malformed("a Git LFS pointer, not the file itself: run `git lfs pull` where it is from");
  }
  if (std::memcmp(raw, "PK\x03\x04", 4) == 0) {
    return malformed("a zip archive (a PyTorch pickle?), not a safetensors file");
  }
  uint64_t length = 0;
  for (int i = 0; i < kLengthBytes; ++i) length |= uint64_t{raw[i]} << (8 * i);
  const auto rest = static_cast<uint64_t>(file_bytes - kLengthBytes);
  if (length > kLargestHeader) {
    return malformed(
        fmt::format("header length: expected at most {} bytes, got {}", kLargestHeader, length));
  }
  if (length > rest) {
    return malformed(fmt::format(
        "header length: expected at most the {} bytes that follow it, got {}", rest, length));
  }
  *length_out = static_cast<int64_t>(length);
  return {};
}

}  // namespace

bool has_control_character(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_control(static_cast<unsigned char>(text[i])) || is_c1_control(text, i)) return true;
  }
  return false;
}

std::string shown(std::string_view text) {
  std::string out = "\"";
  size_t i = 0;
  // Never cut inside a character: bytes 10xxxxxx continue one.
  for (; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (i >= kLargestShown && (c & 0xC0U) != 0x80U) break;
    const bool escape =
        is_control(c) || is_c1_control(text, i) || (i > 0 && is_c1_control(text, i - 1));
    out += escape ? fmt::format("\\x{:02x}", c) : std::string(1, text[i]);
  }
  out += '"';
  if (i < text.size()) out += fmt::format("... ({} bytes)", text.size());
  return out;
}

Status parse_header(std::string_view json, int64_t data_bytes, SafetensorsHeader* out) try {
  JsonSource source(json);
  return parse(&source, data_bytes, out);
} catch (const std::exception& error) {  // out of memory
  return {StatusCode::internal, std::string("header: ") + error.what()};
}

TensorFile::TensorFile(TensorFile&& other) noexcept {
  *this = std::move(other);
}

TensorFile& TensorFile::operator=(TensorFile&& other) noexcept {
  if (this == &other) return *this;
  release();
  path_ = std::move(other.path_);
  fd_ = std::exchange(other.fd_, -1);
  file_bytes_ = std::exchange(other.file_bytes_, 0);
  data_offset_ = other.data_offset_;
  modified_ns_ = other.modified_ns_;
  header_ = std::exchange(other.header_, {});
  by_name_ = std::exchange(other.by_name_, {});
  return *this;
}

TensorFile::~TensorFile() {
  release();
}

void TensorFile::release() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Status TensorFile::open(const std::string& path, TensorFile* out) try {
  const auto refuse = [&](const std::string& why) { return malformed(path + ": " + why); };
  TensorFile file;
  file.path_ = path;
  // Without O_NONBLOCK a FIFO would wait for a writer before it can be refused.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file.fd_ < 0) return refuse("cannot be opened: " + errno_text());
  struct stat info = {};
  if (fstat(file.fd_, &info) != 0) return refuse("cannot be read: " + errno_text());
  if (!S_ISREG(info.st_mode)) return refuse("expected a regular file");
  file.file_bytes_ = info.st_size;
  file.modified_ns_ = modification_ns(info);

  int64_t length = 0;
  if (Status status = read_header_length(file.fd_, file.file_bytes_, &length); !status.ok()) {
    return refuse(status.message());
  }
  file.data_offset_ = kLengthBytes + length;
  JsonSource source(file.fd_, kLengthBytes, length);
  const int64_t data_bytes = file.file_bytes_ - file.data_offset_;
  if (Status status = parse(&source, data_bytes, &file.header_); !status.ok()) {
    return refuse(status.message());
  }
  file.by_name_ = name_order(file.header_.tensors);
  if (Status status = file.check_unchanged(); !status.ok()) return status;
  *out = std::move(file);
  return {};
} catch (const std::exception& error) {
  return {StatusCode::internal, path + ": " + error.what()};
}

Status TensorFile::acquire() {
  if (fd_ >= 0) return {};
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd_ < 0) return malformed(path_ + ": cannot be opened: " + errno_text());
  return check_unchanged();
}

Status TensorFile::read(int64_t offset, int64_t bytes, void* out) const {
  Status status = read_at(fd_, data_offset_ + offset, bytes, static_cast<char*>(out));
  return status.ok() ? status : Status(status.code(), path_ + ": " + status.message());
}

const TensorEntry* TensorFile::find(std::string_view name) const {
  const TensorList& tensors = header_.tensors;
  const auto it =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](uint32_t i, std::string_view n) { return tensors[i].name < n; });
  return it != by_name_.end() && tensors[*it].name == name ? &tensors[*it] : nullptr;
}

Status TensorFile::check_unchanged() const {
  struct stat info = {};
  if (fstat(fd_, &info) != 0) return malformed(path_ + ": cannot be read: " + errno_text());
  if (info.st_size == file_bytes_ && modification_ns(info) == modified_ns_) return {};
  return malformed(
      fmt::format("{}: expected the file of {} bytes that was opened, got one of {} "
                  "bytes that was changed since",
                  path_, file_bytes_, info.st_size));
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept {
  *this = std::move(other);
}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  map_ = std::exchange(other.map_, nullptr);
  file_ = std::move(other.file_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  unmap();
}

void SafetensorsFile::unmap() {
  if (map_ != nullptr) munmap(map_, static_cast<size_t>(file_.file_bytes()));
  map_ = nullptr;
}

Status SafetensorsFile::open(const std::string& path, SafetensorsFile* out) {
  SafetensorsFile file;
  if (Status status = TensorFile::open(path, &file.file_); !status.ok()) return status;
  void* map = mmap(nullptr, static_cast<size_t>(file.file_.file_bytes()), PROT_READ, MAP_PRIVATE,
                   file.file_.descriptor(), 0);
  if (map == MAP_FAILED) return malformed(path + ": cannot be mapped: " + errno_text());
  file.map_ = static_cast<std::byte*>(map);
  if (Status status = file.check_unchanged(); !status.ok()) return status;
  *out = std::move(file);
  return {};
}

const std::byte* SafetensorsFile::data(const TensorEntry& entry) const {
  return map_ + file_.data_offset() + entry.begin;
}

}  // namespace rowscale::checkpoint
