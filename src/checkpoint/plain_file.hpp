// A file beside the tensors, read by position.
#pragma once

#include <cstdint>
#include <string>

namespace rowscale::checkpoint {

// Throws Failure: unreadable (it cannot be opened or read, is shorter than it was), input (no
// regular file).
class PlainFile {
 public:
  explicit PlainFile(std::string path);
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;
  ~PlainFile();

  int64_t bytes() const { return bytes_; }
  int descriptor() const { return fd_; }
  void read(int64_t offset, int64_t bytes, void* out) const;

  // Refuses one that stands for the file itself, in the Git LFS of a clone. Throws Failure(input).
  void require_no_pointer() const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace rowscale::checkpoint
