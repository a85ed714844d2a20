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

#include "checkpoint/stored_type.hpp"
#include "checkpoint/tensor_list.hpp"
#include "rowscale/status.hpp"

namespace rowscale::checkpoint {

struct SafetensorsHeader {
  TensorList tensors;                           // by (begin, end): without holes or overlaps
  std::map<std::string, std::string> metadata;  // of "__metadata__"; values may hold anything
};

// `json`: the header without its length. `data_bytes`: how much follows it in the file.
Status parse_header(std::string_view json, int64_t data_bytes, SafetensorsHeader* out);

// A text of the file as it may be shown: quoted, control characters escaped, long ones cut.
std::string shown(std::string_view text);

// One open file, read by position: nothing of it stays in memory but its header, and a file that
// shrinks meanwhile gives a message, not a signal. Movable; read() may be called from any thread.
class TensorFile {
 public:
  TensorFile() = default;
  TensorFile(TensorFile&& other) noexcept;
  TensorFile& operator=(TensorFile&& other) noexcept;
  ~TensorFile();

  // invalid_argument: unreadable, no regular file, or malformed; the message begins with the path
  // and says which tensor, what was expected and what came. `out` is left alone on failure.
  static Status open(const std::string& path, TensorFile* out);

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_; }  // -1 while released
  int64_t file_bytes() const { return file_bytes_; }
  int64_t data_offset() const { return data_offset_; }  // bytes, in the file
  int64_t modified_ns() const { return modified_ns_; }  // since 1970
  const TensorList& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const TensorEntry* find(std::string_view name) const;  // nullptr: no such tensor

  // `offset`: bytes from the start of the data. All of `bytes` or a failure.
  Status read(int64_t offset, int64_t bytes, void* out) const;

  // Closes the descriptor and keeps the header, for models of more shards than a process may have
  // files open; acquire() opens the same file again and refuses one that was changed.
  void release();
  Status acquire();

  Status check_unchanged() const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t file_bytes_ = 0;
  int64_t data_offset_ = 0;
  int64_t modified_ns_ = 0;
  SafetensorsHeader header_;
  std::vector<uint32_t> by_name_;  // indices of tensors, for find
};

// The file, mapped read-only until the object dies: for small files. Movable; safe to read from
// several threads.
class SafetensorsFile {
 public:
  SafetensorsFile() = default;
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  // As TensorFile::open.
  static Status open(const std::string& path, SafetensorsFile* out);

  const TensorList& tensors() const { return file_.tensors(); }
  const std::map<std::string, std::string>& metadata() const { return file_.metadata(); }
  const TensorEntry* find(std::string_view name) const { return file_.find(name); }

  // end - begin bytes. They may lie at any address, odd ones too: copy elements out with memcpy.
  const std::byte* data(const TensorEntry& entry) const;

  // A file that shrinks while it is mapped turns a read into SIGBUS, which no check can prevent;
  // this one, made between reads, turns most of those cases into a message.
  Status check_unchanged() const { return file_.check_unchanged(); }

 private:
  void unmap();

  TensorFile file_;
  std::byte* map_ = nullptr;
};

}  // namespace rowscale::checkpoint
