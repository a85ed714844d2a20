#include "checkpoint/plain_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoint/failure.hpp"
#include "checkpoint/read_at.hpp"

namespace rowscale::checkpoint {

PlainFile::PlainFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK a FIFO would wait for a writer.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  struct stat info = {};
  if (fd_ < 0 || fstat(fd_, &info) != 0) {
    const std::string why = std::generic_category().message(errno);
    if (fd_ >= 0) ::close(fd_);
    throw Failure(FailureKind::unreadable, path_ + ": cannot be opened: " + why);
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
  const Status status = read_at(fd_, offset, bytes, static_cast<char*>(out));
  if (!status.ok()) throw Failure(FailureKind::unreadable, path_ + ": " + status.message());
}

void PlainFile::require_no_pointer() const {
  constexpr std::string_view kPointer = "version https://git-lfs";
  std::array<char, kPointer.size()> begin = {};
  if (bytes_ < static_cast<int64_t>(begin.size())) return;
  read(0, begin.size(), begin.data());
  if (std::string_view(begin.data(), begin.size()) != kPointer) return;
  refuse_input("{}: a Git LFS pointer, not the file itself: run `git lfs pull` where it is from",
               path_);
}

}  // namespace rowscale::checkpoint
