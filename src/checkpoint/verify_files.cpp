#include "checkpoint/verify_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "checkpoint/sha256.hpp"

namespace rowscale::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t kStrip = size_t{1} << 20;

bool stays_inside(const fs::path& name) {
  return !name.empty() && name.is_relative() &&
         std::find(name.begin(), name.end(), "..") == name.end();
}

// The problem of one file, or an empty text.
std::string problem_of(const fs::path& folder, const RecordedFile& file) {
  if (!stays_inside(file.name)) return "leads out of the folder";
  const int fd = open((folder / file.name).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return "cannot be opened: " + std::generic_category().message(errno);
  std::string problem;
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    problem = "expected a regular file";
  } else if (info.st_size != file.bytes) {
    problem = fmt::format("expected {} bytes, got {}", file.bytes, info.st_size);
  } else {
    Sha256 hash;
    std::vector<char> strip(kStrip);
    for (;;) {
      const ssize_t got = read(fd, strip.data(), strip.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) problem = "cannot be read: " + std::generic_category().message(errno);
      if (got <= 0) break;
      hash.update(strip.data(), static_cast<size_t>(got));
    }
    if (problem.empty() && hash.hex() != file.sha256) {
      problem = fmt::format("expected SHA-256 {}, got {}", file.sha256, hash.hex());
    }
  }
  close(fd);
  return problem;
}

}  // namespace

Check verify_files(const std::string& folder, const Record& record) {
  Check check("files", "each file has the recorded size and SHA-256");
  for (const RecordedFile& file : record.files) {
    check.add_item();
    const std::string problem = problem_of(folder, file);
    if (!problem.empty()) check.add_problem(shown(file.name) + ": " + problem);
  }
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool is_recorded =
        std::any_of(record.files.begin(), record.files.end(),
                    [&](const RecordedFile& file) { return file.name == name; });
    if (name.ends_with(".safetensors") && !is_recorded) {
      check.add_problem(shown(name) + ": holds tensors, and is not recorded");
    }
  }
  if (error) check.add_problem("the folder cannot be listed: " + error.message());
  return check;
}

}  // namespace rowscale::checkpoint
