#include "checkpoint/plain_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "checkpoint/failure.hpp"

namespace rowscale::checkpoint {

PlainFile::PlainFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK a FIFO would wait for a writer.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  struct stat info = {};
  if (fd_ < 0 || fstat(fd_, &info) != 0) {
    const std::string why = std::generic_category().message(errno);
    if (fd_ >= 0) ::close(fd_);
    refuse_input("{}: cannot be opened: {}", path_, why);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd_);
    refuse_input("{}: expected a regular file", path_);
  }
  bytes_ = info.st_size;
}

PlainFile::~PlainFile() {
  ::close(fd_);
}

void PlainFile::read(int64_t offset, int64_t bytes, void* out) const {
  char* p = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(fd_, p, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      refuse_input("{}: cannot be read: {}", path_, std::generic_category().message(errno));
    }
    if (got == 0) refuse_input("{}: the file shrank while it was read", path_);
    p += got;
    offset += got;
    bytes -= got;
  }
}

}  // namespace rowscale::checkpoint
