#include "checkpoint/target_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "checkpoint/failure.hpp"
#include "checkpoint/folders.hpp"
#include "checkpoint/output_file.hpp"
#include "checkpoint/record.hpp"
#include "checkpoint/working_names.hpp"

namespace rowscale::checkpoint {
namespace {

namespace fs = std::filesystem;

bool has_journal(const fs::path& folder) {
  return is_plain_file(folder / kJournalName);
}

// The files that the record of an output names.
std::set<std::string> recorded_files(const std::string& record) {
  std::set<std::string> out;
  const auto json = nlohmann::json::parse(read_text(record, kLargestText), nullptr, false);
  if (!json.is_object() || !json.contains("files") || !json["files"].is_array()) return out;
  for (const auto& file : json["files"]) {
    const auto name = file.is_object() ? file.find("name") : file.end();
    if (name != file.end() && name->is_string()) out.insert(name->get<std::string>());
  }
  return out;
}

// An open and locked file, which the caller closes. Throws Failure(usage) where another run has it.
int lock_file(const std::string& path, const std::string& out) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) fail_output(path, "cannot be opened");
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int why = errno;
  ::close(fd);
  errno = why;
  if (why == EWOULDBLOCK) refuse_usage("OUT: another run is writing {}", out);
  fail_output(path, "cannot be locked");
}

}  // namespace

TargetFolder::TargetFolder(const Model& model, const ConvertRequest& request)
    : unfinished_(request.unfinished), existing_(request.existing) {
  if (request.out.empty()) refuse_usage("OUT: expected the name of a folder, got nothing");
  const fs::path out = resolved(request.out, "OUT");
  const fs::path clean = out.has_filename() ? out : out.parent_path();
  out_ = clean.string();
  parent_ = clean.parent_path().string();
  std::error_code error;
  if (!fs::is_directory(parent_, error)) {
    refuse_usage("OUT: expected a name in an existing folder, got {}: {} is none", request.out,
                 parent_);
  }
  beside_ = (clean.parent_path() / ("." + clean.filename().string() + ".rowscale")).string();
  inside_ = (clean / kWorkInsideName).string();
  old_ = beside_ + "-old";
  refuse_overlap(model);
  choose_place(request.out);
}

void TargetFolder::choose_place(const std::string& out) {
  work_ = beside_;
  std::error_code error;
  const fs::file_status status = fs::status(out_, error);
  if (!fs::exists(status)) {
    if (fs::is_symlink(fs::symlink_status(out_, error))) {
      refuse_usage("OUT: {} is a symbolic link to nothing", out);
    }
    return;
  }
  if (!fs::is_directory(status)) refuse_usage("OUT: {} is there and is no folder", out);
  if (has_journal(out_)) {
    if (unfinished_ == Unfinished::resume) {
      place_ = Place::published;
      work_ = out_;
      return;
    }
    if (existing_ == Existing::refuse) {
      refuse_usage(
          "OUT: {} is complete, but for what its conversion was to remove: --resume does that, "
          "--force replaces it",
          out);
    }
  } else if (fs::is_empty(out_, error) && has_journal(beside_)) {
    return;  // the folder came after the conversion was begun
  } else {
    const std::vector<std::string> files = files_in(out_);
    const bool only_work = std::all_of(files.begin(), files.end(), [](const std::string& name) {
      return name.rfind(std::string(kWorkInsideName) + "/", 0) == 0;
    });
    // With files beside the working folder: ended while it moved them up.
    const bool is_moving = !only_work && has_journal(inside_);
    // A conversion that was to replace that one takes precedence.
    const bool is_given_up = existing_ == Existing::replace && has_journal(beside_);
    if (only_work || (is_moving && unfinished_ == Unfinished::resume && !is_given_up)) {
      place_ = Place::empty;
      work_ = inside_;
      return;
    }
    if (is_moving && existing_ == Existing::refuse) {
      refuse_usage(
          "OUT: {} holds an unfinished conversion: --resume continues it, --force starts anew",
          out);
    }
  }
  refuse_foreign();
  place_ = Place::replaced;
}

TargetFolder::~TargetFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void TargetFolder::refuse_overlap(const Model& model) const {
  const fs::path source = resolved(model.path(), "MODEL");
  if (lies_in(out_, source)) refuse_usage("OUT: {} is MODEL or lies in it", out_);
  if (lies_in(source, out_)) refuse_usage("OUT: MODEL lies in {}", out_);
  for (const std::string& folder : {beside_, old_}) {
    if (lies_in(source, folder) || lies_in(folder, source)) {
      refuse_usage("OUT: MODEL is {}, a folder for unfinished work: choose another OUT", folder);
    }
  }
  for (const TensorFile& shard : model.shards()) {  // in the Hub's cache they lie elsewhere
    for (const std::string& folder : {out_, beside_, old_}) {
      if (lies_in(resolved(shard.path(), "MODEL"), folder)) {
        refuse_usage("OUT: {}, a file of MODEL, lies in {}", shard.path(), folder);
      }
    }
  }
}

void TargetFolder::require_names(const std::vector<std::string>& names) const {
  const auto most = ::pathconf(parent_.c_str(), _PC_NAME_MAX);
  const auto length = [](const fs::path& path) {
    return static_cast<int64_t>(path.filename().native().size());
  };
  if (most >= 0) {  // else there is no limit, or none that is known
    // The longest name of a folder that the work may need.
    int64_t needed = length(out_);
    if (place_ == Place::free) needed = length(beside_);
    if (place_ == Place::replaced) needed = length(old_);
    if (needed > most) {
      refuse_usage("OUT: expected a name of at most {} bytes{}, got {}",
                   most - needed + length(out_), place_ == Place::replaced ? " to replace" : "",
                   length(out_));
    }
  }
  for (const std::string& name : names) {
    for (const fs::path& part : fs::path(name)) {
      if (most < 0 || length(part) <= most) continue;
      refuse_usage("OUT: its file system allows names of {} bytes: {} of MODEL has {}", most,
                   shown(name), length(part));
    }
    const size_t path = std::max({out_.size(), beside_.size(), inside_.size()}) + 1 + name.size();
    if (path < PATH_MAX) continue;
    refuse_usage("OUT: expected paths of fewer than {} bytes, got {} with {} of MODEL", PATH_MAX,
                 path, shown(name));
  }
}

void TargetFolder::refuse_foreign_work() const {
  if (is_marked(work_)) return;
  refuse_usage("OUT: {}, where the work is done, holds files that rowscale did not write", work_);
}

// Only what rowscale wrote, and only as it wrote it, is ever replaced.
void TargetFolder::refuse_foreign() const {
  fs::path record = fs::path(out_) / kRecordName;
  if (!is_plain_file(record)) record = fs::path(inside_) / kRecordName;  // not moved up yet
  if (!is_plain_file(record)) {
    refuse_usage("OUT: {} is not empty, and rowscale did not write it", out_);
  }
  if (existing_ == Existing::refuse) {
    if (unfinished_ == Unfinished::resume && !has_journal(beside_)) {
      refuse_usage("OUT: {} is complete, --resume has nothing left to do: --force makes it anew",
                   out_);
    }
    refuse_usage("OUT: {} is there: --force replaces it", out_);
  }
  const std::set<std::string> known = recorded_files(record.string());
  for (const std::string& name : files_in(out_)) {
    if (known.count(name) != 0 || name == kRecordName) continue;
    if (is_working_name(fs::path(name).begin()->native())) continue;
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

std::string TargetFolder::part_path() const {
  return (fs::path(work_) / kPartName).string();
}

std::string TargetFolder::journal_path() const {
  return (fs::path(work_) / kJournalName).string();
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
  is_resumed_ = has_journal(work_);
  if (place_ == Place::published) {
    if (is_resumed_) return;
    remove_file(fs::path(work_) / kLockName);  // which lock() has made anew
    refuse_usage("OUT: another run has just written {}", out_);
  }
  if (is_resumed_ && unfinished_ == Unfinished::refuse) {
    if (existing_ == Existing::refuse) {
      refuse_usage("{} holds an unfinished conversion: --resume continues it, --force starts anew",
                   work_);
    }
    is_resumed_ = false;
  }
  if (!is_resumed_) clear_marked(work_);
  if (place_ == Place::replaced) settle_replaced();
}

void TargetFolder::lock() {
  const std::string path = (fs::path(work_) / kLockName).string();
  lock_ = lock_file(path, out_);
  // The run that had it may have finished meanwhile and taken the folder away.
  struct stat mine = {};
  struct stat there = {};
  if (fstat(lock_, &mine) != 0 || stat(path.c_str(), &there) != 0 || mine.st_ino != there.st_ino) {
    refuse_usage("OUT: another run has just written {}", out_);
  }
}

// An output whose own last step was interrupted becomes one that is done, before the journal of the
// conversion that replaces it is there: never two journals of which either could be meant.
void TargetFolder::settle_replaced() const {
  // What marks it, also where it was not moved up yet: the exchanged folder is removed by its
  // marks.
  const fs::path record = fs::path(out_) / kRecordName;
  if (!is_plain_file(record)) rename_path(fs::path(inside_) / kRecordName, record);
  const fs::path lock = fs::path(out_) / kLockName;
  if (!has_journal(out_) && !is_plain_file(lock)) return;
  const int fd = lock_file(lock.string(), out_);
  remove_file(lock);
  remove_file(fs::path(out_) / kJournalName);
  ::close(fd);
}

void TargetFolder::move_up(const std::vector<std::string>& last) const {
  const fs::path from = work_;
  const fs::path to = out_;
  std::set<fs::path> folders = {to};
  const auto move = [&](const std::string& name) {
    const fs::path folder = (to / name).parent_path();
    std::error_code error;
    fs::create_directories(folder, error);  // where it fails, so does the renaming
    rename_path(from / name, to / name);
    folders.insert(folder);
  };
  for (const std::string& name : files_in(from)) {
    const bool is_last = std::find(last.begin(), last.end(), name) != last.end();
    if (!is_last && !is_working_name(name)) move(name);
  }
  for (const fs::path& folder : folders) sync_folder(folder.string());
  std::error_code error;
  for (const std::string& name : last) {
    if (!name.empty() && fs::exists(from / name, error)) move(name);
  }
  sync_folder(out_);
  for (const char* name : {kLockName, kJournalName}) rename_path(from / name, to / name);
  sync_folder(out_);
}

void TargetFolder::exchange() const {
  if (renameat2(AT_FDCWD, work_.c_str(), AT_FDCWD, out_.c_str(), RENAME_EXCHANGE) == 0) return;
  // A file system without the exchange: for a moment there is no folder.
  std::error_code error;
  if (fs::exists(old_, error) && is_marked(old_)) remove_marked(old_);
  rename_path(out_, old_);
  rename_path(work_, out_);
}

void TargetFolder::publish(const std::vector<std::string>& last) {
  switch (place_) {
    case Place::free:
      sync_folder(work_);
      rename_path(work_, out_);  // fails over anything but an empty folder
      break;
    case Place::replaced:
      sync_folder(work_);
      exchange();
      break;
    case Place::empty:
      move_up(last);
      break;
    case Place::published:
      break;
  }
  sync_folder(parent_);
}

void TargetFolder::tidy() const {
  const auto is_folder = [](const fs::path& path) {
    std::error_code error;
    return fs::is_directory(fs::symlink_status(path, error));
  };
  for (const std::string& folder : {beside_, old_}) {
    if (is_folder(folder) && is_marked(folder)) remove_marked(folder);
  }
  if (is_folder(inside_)) remove_marked(inside_);  // its marks were moved up
  sync_folder(parent_);
  remove_file(fs::path(out_) / kLockName);
  remove_file(fs::path(out_) / kJournalName);
  sync_folder(out_);
}

void TargetFolder::discard() const {
  remove_marked(work_);
}

int64_t TargetFolder::free_bytes() const {
  // A folder that is there may be where another file system begins.
  const bool is_there = place_ == Place::empty || place_ == Place::published;
  const std::string& where = is_there ? out_ : parent_;
  struct statvfs info = {};
  if (statvfs(where.c_str(), &info) != 0) fail_output(where, "its free space is not known");
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

int64_t TargetFolder::used_bytes() const {
  int64_t bytes = 0;
  std::error_code error;
  const std::string& where =
      place_ == Place::empty ? out_ : work_;  // files may be moved up already
  for (fs::recursive_directory_iterator it(where, error), end; !error && it != end;
       it.increment(error)) {
    struct stat info = {};
    if (lstat(it->path().c_str(), &info) == 0) bytes += info.st_blocks * 512;
  }
  return bytes;
}

}  // namespace rowscale::checkpoint
