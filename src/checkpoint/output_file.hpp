// One file being written: under a name of its own until it is whole, hashed as it grows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/sha256.hpp"

namespace rowscale::checkpoint {

// Throws Failure(output).
class OutputFile {
 public:
  // Written as `part`, of the same file system, until it is whole; the folder of `path` is there.
  // `bytes`: room that is taken at once, so that a full disk shows early; 0: not known.
  OutputFile(std::string path, std::string part, int64_t bytes);
  // Opens `part` as an earlier run left it.
  static OutputFile reopen(std::string path, std::string part);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  void write(int64_t offset, const void* data, int64_t bytes);
  // Behind all that was appended so far: in the file and in the hash.
  void append(const void* data, int64_t bytes);
  void append(std::string_view text) { append(text.data(), static_cast<int64_t>(text.size())); }
  // The bytes up to `end` that are in the file already go into the hash.
  void append_from_file(int64_t end);

  // How far the hash is; everything before lies in the file.
  int64_t cursor() const { return cursor_; }
  std::string prefix_hash() const { return hash_.hex(); }

  void read(int64_t offset, int64_t bytes, void* out) const;

  void flush();  // to the disk
  // fsync, rename to `path`, and the hash of the whole, which must have been appended.
  std::string finish();

 private:
  OutputFile(std::string path, std::string part, int flags, int64_t bytes);
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string part_;
  int fd_ = -1;
  Sha256 hash_;
  int64_t cursor_ = 0;
  int64_t pushed_ = 0;  // up to here the kernel was told to write to the disk
};

[[noreturn]] void fail_output(const std::string& path, const char* what);  // with errno's reason

// So that a name in it survives a power failure.
void sync_folder(const std::string& path);

}  // namespace rowscale::checkpoint
