#include "checkpoint/target_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>

#include "checkpoint/failure.hpp"
#include "checkpoint/output_file.hpp"

namespace rowscale::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecord = "rowscale.json";
constexpr const char* kJournal = ".rowscale-journal";
constexpr const char* kLock = ".rowscale-lock";
constexpr const char* kWorkInside = ".rowscale-work";

// Whether `inner` is `outer` or lies in it, by what the file system says, not by names.
bool lies_in(fs::path inner, const fs::path& outer) {
  std::error_code error;
  for (;;) {
    if (fs::exists(inner, error) && fs::equivalent(inner, outer, error)) return true;
    const fs::path up = inner.parent_path();
    if (up == inner || up.empty()) return false;
    inner = up;
  }
}

// As far as it exists without symbolic links.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path out = fs::weakly_canonical(fs::absolute(path), error);
  return error ? fs::absolute(path) : out;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored) || it->is_symlink(ignored)) {
      out.push_back(it->path().lexically_relative(folder).string());
    }
  }
  if (error) refuse_usage("{}: cannot be listed: {}", folder.string(), error.message());
  return out;
}

}  // namespace

TargetFolder::TargetFolder(const Model& model, const ConvertRequest& request)
    : unfinished_(request.unfinished), existing_(request.existing) {
  if (request.out.empty()) refuse_usage("OUT: expected the name of a folder, got nothing");
  const fs::path out = resolved(request.out);
  const fs::path clean = out.has_filename() ? out : out.parent_path();
  out_ = clean.string();
  parent_ = clean.parent_path().string();
  std::error_code error;
  if (!fs::is_directory(parent_, error)) {
    refuse_usage("OUT: expected a name in an existing folder, got {}: {} is none", request.out,
                 parent_);
  }
  work_ = (clean.parent_path() / ("." + clean.filename().string() + ".rowscale")).string();
  refuse_overlap(model);
  const fs::file_status status = fs::status(out_, error);
  if (!fs::exists(status)) {
    if (fs::is_symlink(fs::symlink_status(out_, error))) {
      refuse_usage("OUT: {} is a symbolic link to nothing", request.out);
    }
    refuse_long_name();
    return;
  }
  if (!fs::is_directory(status)) refuse_usage("OUT: {} is there and is no folder", request.out);
  const std::vector<std::string> files = files_in(out_);
  const bool only_work = std::all_of(files.begin(), files.end(), [](const std::string& name) {
    return name.rfind(std::string(kWorkInside) + "/", 0) == 0;
  });
  if (only_work || files.empty()) {
    place_ = Place::empty;
    work_ = (fs::path(out_) / kWorkInside).string();
    return;
  }
  // Files being moved up when a run was ended: its working folder is still there.
  if (fs::exists(fs::path(out_) / kWorkInside / kJournal, error)) {
    place_ = Place::empty;
    work_ = (fs::path(out_) / kWorkInside).string();
    if (unfinished_ == Unfinished::resume) return;
    refuse_usage("OUT: {} holds an unfinished conversion: --resume continues it", request.out);
  }
  refuse_foreign();
  refuse_long_name();
  place_ = Place::replaced;
}

TargetFolder::~TargetFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void TargetFolder::refuse_overlap(const Model& model) const {
  const fs::path source = resolved(model.path());
  if (lies_in(out_, source)) refuse_usage("OUT: {} is MODEL or lies in it", out_);
  if (lies_in(source, out_)) refuse_usage("OUT: MODEL lies in {}", out_);
  if (lies_in(source, work_) || lies_in(work_, source)) {
    refuse_usage("OUT: MODEL is {}, the folder for unfinished work: choose another OUT", work_);
  }
  for (const TensorFile& shard : model.shards()) {  // in the Hub's cache they lie elsewhere
    for (const std::string& folder : {out_, work_}) {
      if (lies_in(resolved(shard.path()), folder)) {
        refuse_usage("OUT: {}, a file of MODEL, lies in {}", shard.path(), folder);
      }
    }
  }
}

// The working folder beside OUT has the longer name.
void TargetFolder::refuse_long_name() const {
  const auto most = ::pathconf(parent_.c_str(), _PC_NAME_MAX);
  if (most < 0) return;  // no limit, or none that is known
  const auto length = static_cast<int64_t>(fs::path(out_).filename().native().size());
  const auto added = static_cast<int64_t>(fs::path(work_).filename().native().size()) - length;
  if (length + added <= most) return;
  refuse_usage("OUT: expected a name of at most {} bytes, got {}", most - added, length);
}

// Every working folder has a journal, a lock, or the record of a complete output.
void TargetFolder::refuse_foreign_work() const {
  std::error_code error;
  if (fs::is_empty(work_, error)) return;
  for (const char* name : {kJournal, kLock, kRecord}) {
    if (fs::is_regular_file(fs::path(work_) / name, error)) return;
  }
  refuse_usage("OUT: {}, where the work is done, holds files that rowscale did not write", work_);
}

// Only what rowscale wrote, and only as it wrote it, is ever replaced.
void TargetFolder::refuse_foreign() const {
  const std::string record = (fs::path(out_) / kRecord).string();
  std::error_code error;
  if (!fs::is_regular_file(record, error)) {
    refuse_usage("OUT: {} is not empty, and rowscale did not write it", out_);
  }
  if (existing_ == Existing::refuse) {
    refuse_usage("OUT: {} is there: --force replaces it", out_);
  }
  const auto json = nlohmann::json::parse(read_text(record, kLargestText), nullptr, false);
  std::set<std::string> known = {kRecord};
  if (json.is_object() && json.contains("files") && json["files"].is_array()) {
    for (const auto& file : json["files"]) {
      const auto name = file.is_object() ? file.find("name") : file.end();
      if (name != file.end() && name->is_string()) known.insert(name->get<std::string>());
    }
  }
  for (const std::string& name : files_in(out_)) {
    if (known.count(name) != 0) continue;
    refuse_usage("OUT: {} holds {}, which rowscale did not write: it would be lost with --force",
                 out_, name);
  }
}

std::string TargetFolder::in_work(const std::string& name) const {
  const fs::path path = fs::path(work_) / name;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    throw Failure(FailureKind::output,
                  path.parent_path().string() + ": cannot be made: " + error.message());
  }
  return path.string();
}

std::string TargetFolder::finished_path(const std::string& name) const {
  const fs::path path = fs::path(work_) / name;
  std::error_code error;
  // A run that was ended while it moved files up.
  if (place_ == Place::empty && !fs::exists(path, error)) return (fs::path(out_) / name).string();
  return path.string();
}

std::string TargetFolder::journal_path() const {
  return (fs::path(work_) / kJournal).string();
}

bool TargetFolder::is_ours(const std::string& name) {
  return name == kJournal || name == kLock;
}

void TargetFolder::begin() {
  if (::mkdir(work_.c_str(), 0777) != 0) {
    if (errno != EEXIST) fail_output(work_, "cannot be made");
    std::error_code error;
    if (!fs::is_directory(fs::symlink_status(work_, error))) {
      refuse_usage("OUT: {}, where the work is done, is there and is no folder", work_);
    }
    refuse_foreign_work();
  }
  lock();
  std::error_code error;
  is_resumed_ = fs::exists(journal_path(), error);
  // A complete folder whose renaming, or an old one whose removal, was interrupted.
  if (!is_resumed_) clear_work();
  if (is_resumed_ && unfinished_ == Unfinished::refuse) {
    if (existing_ == Existing::refuse) {
      refuse_usage("{} holds an unfinished conversion: --resume continues it, --force starts anew",
                   work_);
    }
    clear_work();
    is_resumed_ = false;
  }
}

void TargetFolder::lock() {
  const std::string path = (fs::path(work_) / kLock).string();
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (lock_ < 0) fail_output(path, "cannot be opened");
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) refuse_usage("OUT: another run is writing {}", out_);
    fail_output(path, "cannot be locked");
  }
  // The run that had it may have finished meanwhile and taken the folder away.
  struct stat mine = {};
  struct stat there = {};
  if (fstat(lock_, &mine) != 0 || stat(path.c_str(), &there) != 0 || mine.st_ino != there.st_ino) {
    refuse_usage("OUT: another run has just written {}", out_);
  }
}

void TargetFolder::clear_work() const {
  std::error_code error;
  for (fs::directory_iterator it(work_, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() == kLock) continue;
    fs::remove_all(it->path(), error);
    if (error) break;
  }
  if (error) throw Failure(FailureKind::output, work_ + ": cannot be emptied: " + error.message());
}

void TargetFolder::move_up(const std::vector<std::string>& last) const {
  const auto move = [&](const std::string& name) {
    const fs::path to = fs::path(out_) / name;
    std::error_code error;
    fs::create_directories(to.parent_path(), error);
    if (std::rename((fs::path(work_) / name).c_str(), to.c_str()) != 0) {
      fail_output(to.string(), "cannot be put in its place");
    }
  };
  for (const std::string& name : files_in(work_)) {
    if (!is_ours(name) && std::find(last.begin(), last.end(), name) == last.end()) move(name);
  }
  sync_folder(out_);
  std::error_code error;
  for (const std::string& name : last) {
    if (!name.empty() && fs::exists(fs::path(work_) / name, error)) move(name);
  }
  sync_folder(out_);
  fs::remove_all(work_, error);
}

void TargetFolder::finish(const std::vector<std::string>& last) {
  std::error_code error;
  if (place_ == Place::empty) {
    move_up(last);
    sync_folder(parent_);
    return;
  }
  fs::remove(journal_path(), error);
  fs::remove(fs::path(work_) / kLock, error);
  sync_folder(work_);
  if (place_ == Place::absent) {
    // Not over something that came meanwhile.
    if (renameat2(AT_FDCWD, work_.c_str(), AT_FDCWD, out_.c_str(), RENAME_NOREPLACE) != 0 &&
        (errno != EINVAL || std::rename(work_.c_str(), out_.c_str()) != 0)) {
      fail_output(out_, "cannot be put in its place");
    }
  } else if (renameat2(AT_FDCWD, work_.c_str(), AT_FDCWD, out_.c_str(), RENAME_EXCHANGE) == 0) {
    sync_folder(parent_);
    // The old one now; its record last: without it what is left would be nobody's.
    for (const std::string& name : files_in(work_)) {
      if (name != kRecord) fs::remove(fs::path(work_) / name, error);
    }
    fs::remove_all(work_, error);
  } else {
    // A file system without the exchange: for a moment there is no folder.
    const std::string old = work_ + "-old";
    if (std::rename(out_.c_str(), old.c_str()) != 0 ||
        std::rename(work_.c_str(), out_.c_str()) != 0) {
      fail_output(out_, "cannot be put in its place");
    }
    fs::remove_all(old, error);
  }
  sync_folder(parent_);
}

void TargetFolder::discard() const {
  std::error_code ignored;
  fs::remove_all(work_, ignored);
}

int64_t TargetFolder::free_bytes() const {
  // An empty folder may be where another file system begins.
  const std::string& where = place_ == Place::empty ? out_ : parent_;
  struct statvfs info = {};
  if (statvfs(where.c_str(), &info) != 0) fail_output(where, "its free space is not known");
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

int64_t TargetFolder::used_bytes() const {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(work_, error), end; !error && it != end;
       it.increment(error)) {
    struct stat info = {};
    if (lstat(it->path().c_str(), &info) == 0) bytes += info.st_blocks * 512;
  }
  return bytes;
}

}  // namespace rowscale::checkpoint
