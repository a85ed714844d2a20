// Reads one .safetensors file, which may be hostile: what a header promises is checked before any
// of it is believed, and nothing is printed or thrown. More is refused than by the reference
// reader: duplicate names, control characters in names, integers beyond 2^48, deep nesting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rowscale/status.hpp"
#include "rowscale/types.hpp"

namespace rowscale::checkpoint {

// The element types of the format, in the order in which the reference writer sorts tensors.
enum class StoredType : int32_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,  // the "fn" form: largest 448, no infinity
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};

const char* to_string(StoredType type);      // as the file spells it: "F8_E4M3"
int64_t bits_per_element(StoredType type);   // 4 and 6 occur
bool to_dtype(StoredType type, DType* out);  // false: rowscale has no such type

struct TensorEntry {
  std::string name;
  StoredType type = StoredType::u8;
  std::vector<int64_t> shape;  // empty: a scalar; zero-sized dimensions occur
  int64_t begin = 0;           // bytes, from the start of the data
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;             // by (begin, end): without holes or overlaps
  std::map<std::string, std::string> metadata;  // of "__metadata__"; values may hold anything
};

// `json`: the header without its length. `data_bytes`: how much follows it in the file.
Status parse_header(std::string_view json, int64_t data_bytes, SafetensorsHeader* out);

// A text of the file as it may be shown: quoted, control characters escaped, long ones cut.
std::string shown(std::string_view text);

// The file, mapped read-only until the object dies. Movable; safe to read from several threads.
class SafetensorsFile {
 public:
  SafetensorsFile() = default;
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  // invalid_argument: unreadable, no regular file, or malformed; the message begins with the path
  // and says which tensor, what was expected and what came. `out` is left alone on failure.
  static Status open(const std::string& path, SafetensorsFile* out);

  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const TensorEntry* find(std::string_view name) const;  // nullptr: no such tensor

  // end - begin bytes. They may lie at any address, odd ones too: copy elements out with memcpy.
  const std::byte* data(const TensorEntry& entry) const;

  // A file that shrinks while it is mapped turns a read into SIGBUS, which no check can prevent;
  // this one, made between reads, turns most of those cases into a message.
  Status check_unchanged() const;

 private:
  void close();

  std::string path_;
  int fd_ = -1;
  std::byte* map_ = nullptr;
  int64_t file_bytes_ = 0;
  int64_t data_offset_ = 0;  // bytes, in the file
  int64_t modified_ns_ = 0;
  SafetensorsHeader header_;
  std::vector<uint32_t> by_name_;  // indices of tensors, for find
};

}  // namespace rowscale::checkpoint
