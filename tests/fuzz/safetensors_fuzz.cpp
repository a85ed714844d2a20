// libFuzzer's entry: a whole safetensors file. What the reader accepts must keep every promise that
// the rest of the code builds on; what it refuses must be refused with one clean line.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "checkpoint/safetensors.hpp"
#include "tests/fuzz/safetensors_fuzz.hpp"

namespace rowscale::checkpoint {
namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

bool is_printable(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

// A file in memory, so that the reader's own system calls are what is tested.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(fd_ >= 0, "memfd_create");
    require(write(fd_, data, size) == static_cast<ssize_t>(size), "write");
    path_ = "/proc/self/fd/" + std::to_string(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

void check_accepted(const SafetensorsFile& file, size_t size) {
  int64_t end = 0;
  unsigned sum = 0;
  std::set<std::string_view> names;
  for (const TensorEntry& entry : file.tensors()) {
    require(entry.begin == end && entry.end >= entry.begin, "tensors follow each other");
    end = entry.end;
    int64_t elements = 1;
    for (const int64_t length : entry.shape) {
      require(length >= 0, "sizes are not negative");
      elements *= length;
    }
    const int64_t bits = elements * bits_per_element(entry.type);
    require(bits % 8 == 0 && bits / 8 == end - entry.begin, "bytes are those of type and shape");
    require(is_printable(entry.name), "names hold no control characters");
    require(names.insert(entry.name).second, "names are unique");
    require(file.find(entry.name) == &entry, "a tensor is found by its name");
    for (int64_t i = 0; i < end - entry.begin; ++i) {
      sum += std::to_integer<unsigned>(file.data(entry)[i]);
    }
  }
  require(end <= static_cast<int64_t>(size) - 8 && sum <= 255 * size, "data lies in the file");
}

}  // namespace

bool read_safetensors(const uint8_t* data, size_t size) {
  const MemoryFile memory(data, size);
  SafetensorsFile file;
  const Status status = SafetensorsFile::open(memory.path(), &file);
  require(status.code() != StatusCode::internal, "a file is never a fault of ours");
  if (status.ok()) {
    check_accepted(file, size);
    return true;
  }
  require(status.message().rfind(memory.path() + ": ", 0) == 0, "a refusal begins with the path");
  require(is_printable(status.message()), "a refusal is one line without control characters");
  require(file.tensors().empty(), "a refusal leaves nothing behind");
  return false;
}

}  // namespace rowscale::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rowscale::checkpoint::read_safetensors(data, size);
  return 0;
}
