#include "checkpoint/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/failure.hpp"

namespace rowscale::checkpoint {
namespace {

// The kernel starts writing after this much, so that fsync at the end finds little left.
constexpr int64_t kPush = 8 << 20;

}  // namespace

void fail_output(const std::string& path, const char* what) {
  throw Failure(FailureKind::output,
                fmt::format("{}: {}: {}", path, what, std::generic_category().message(errno)));
}

void sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_output(path, "cannot be opened");
  const int synced = fsync(fd);
  const int why = errno;
  ::close(fd);
  errno = why;
  // Some network file systems cannot; there is nothing more to do for them.
  if (synced != 0 && why != EINVAL && why != ENOTSUP) fail_output(path, "cannot be synchronised");
}

OutputFile::OutputFile(std::string path, std::string part, int flags, int64_t bytes)
    : path_(std::move(path)), part_(std::move(part)) {
  fd_ = ::open(part_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  if (fd_ < 0) fail("cannot be created");
  if (bytes > 0 && fallocate(fd_, 0, 0, bytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    const int why = errno;
    ::close(std::exchange(fd_, -1));
    errno = why;
    fail("there is no room for it");
  }
}

OutputFile::OutputFile(std::string path, std::string part, int64_t bytes)
    : OutputFile(std::move(path), std::move(part), O_CREAT | O_TRUNC, bytes) {}

OutputFile OutputFile::reopen(std::string path, std::string part) {
  return {std::move(path), std::move(part), 0, 0};
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      part_(std::move(other.part_)),
      fd_(std::exchange(other.fd_, -1)),
      hash_(other.hash_),
      cursor_(other.cursor_),
      pushed_(other.pushed_) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::fail(const char* what) const {
  fail_output(path_, what);
}

void OutputFile::write(int64_t offset, const void* data, int64_t bytes) {
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = pwrite(fd_, p, static_cast<size_t>(bytes), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("cannot be written");
    p += put;
    offset += put;
    bytes -= put;
  }
}

void OutputFile::append(const void* data, int64_t bytes) {
  write(cursor_, data, bytes);
  hash_.update(data, static_cast<size_t>(bytes));
  cursor_ += bytes;
  if (cursor_ - pushed_ >= kPush) {
    // A hint; where it fails, fsync does all.
    sync_file_range(fd_, pushed_, cursor_ - pushed_, SYNC_FILE_RANGE_WRITE);
    pushed_ = cursor_;
  }
}

void OutputFile::append_from_file(int64_t end) {
  constexpr int64_t kPiece = 256 << 10;
  // Asked for every tensor, and most often nothing is left: no more is cleared than is read.
  std::vector<char> piece(static_cast<size_t>(std::clamp(end - cursor_, int64_t{0}, kPiece)));
  while (cursor_ < end) {
    const int64_t bytes = std::min(end - cursor_, kPiece);
    read(cursor_, bytes, piece.data());
    hash_.update(piece.data(), static_cast<size_t>(bytes));
    cursor_ += bytes;
  }
}

void OutputFile::read(int64_t offset, int64_t bytes, void* out) const {
  char* p = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(fd_, p, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot be read back");
    if (got == 0) {
      throw Failure(FailureKind::output, path_ + ": another program made it shorter");
    }
    p += got;
    offset += got;
    bytes -= got;
  }
}

void OutputFile::flush() {
  if (fdatasync(fd_) != 0) fail("cannot be written");
}

std::string OutputFile::finish() {
  if (fsync(fd_) != 0) fail("cannot be written");
  if (::close(std::exchange(fd_, -1)) != 0) fail("cannot be written");
  if (std::rename(part_.c_str(), path_.c_str()) != 0) fail("cannot be renamed");
  return hash_.hex();
}

}  // namespace rowscale::checkpoint
