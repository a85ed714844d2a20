#include "checkpoint/journal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "checkpoint/failure.hpp"
#include "checkpoint/journal_header.hpp"
#include "checkpoint/model.hpp"
#include "checkpoint/output_file.hpp"

namespace rowscale::checkpoint {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kLargestJournal = int64_t{1} << 30;

[[noreturn]] void refuse_damaged(const std::string& path) {
  refuse_usage("{}: damaged: remove its folder and start anew", path);
}

}  // namespace

Journal::Journal(std::string path, int flags) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  if (fd_ < 0) fail_output(path_, "cannot be opened");
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      finished_(std::move(other.finished_)),
      unfinished_(std::move(other.unfinished_)) {}

Journal::~Journal() {
  if (fd_ >= 0) ::close(fd_);
}

Journal Journal::create(const std::string& path, const ordered_json& header) {
  Journal out(path, O_CREAT | O_TRUNC);
  out.append(header);
  out.flush();
  return out;
}

Journal Journal::resume(const std::string& path, const ordered_json& header) {
  std::string text = read_text(path, kLargestJournal);
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  Journal out(path, 0);
  if (ftruncate(out.fd_, static_cast<off_t>(text.size())) != 0) {
    fail_output(path, "cannot be shortened");
  }
  size_t begin = 0;
  bool is_header = true;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    const ordered_json line = ordered_json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (!line.is_object()) refuse_damaged(path);
    try {
      if (std::exchange(is_header, false)) {
        const std::string found = header_difference(line, header);
        if (found.empty()) continue;
        refuse_usage(
            "--resume: the unfinished conversion is another one: {}. --force without --resume "
            "starts anew",
            found);
      }
      out.take(line);
    } catch (const nlohmann::json::exception&) {  // a member is missing, or of another type
      refuse_damaged(path);
    }
  }
  if (is_header) out.append(header);  // a crash before the first line was whole
  return out;
}

void Journal::take(const ordered_json& line) {
  if (line.contains("file")) {
    finished_.push_back({line.at("file").get<std::string>(), line.at("bytes").get<int64_t>(),
                         line.at("sha256").get<std::string>()});
    unfinished_.reset();
  } else {
    unfinished_ = {line.at("part").get<std::string>(), line.at("tensors").get<uint32_t>(),
                   line.at("cursor").get<int64_t>(), line.at("prefix").get<std::string>(),
                   line.at("tail").get<std::string>()};
  }
}

const FinishedFile* Journal::find(const std::string& name) const {
  // The last one: a damaged file was made anew.
  const auto it = std::find_if(finished_.rbegin(), finished_.rend(),
                               [&](const FinishedFile& file) { return file.name == name; });
  return it == finished_.rend() ? nullptr : &*it;
}

void Journal::append(const ordered_json& line) {
  const std::string text = line.dump() + "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(fd_, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_output(path_, "cannot be written");
    done += static_cast<size_t>(put);
  }
}

void Journal::add(const FinishedFile& file) {
  append({{"file", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  flush();
  finished_.push_back(file);
  unfinished_.reset();
}

void Journal::add(const UnfinishedFile& file) {
  append({{"part", file.name},
          {"tensors", file.tensors},
          {"cursor", file.cursor},
          {"prefix", file.prefix_hash},
          {"tail", file.tail_hash}});
}

void Journal::flush() {
  if (fdatasync(fd_) != 0) fail_output(path_, "cannot be written");
}

}  // namespace rowscale::checkpoint
