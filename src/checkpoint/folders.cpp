#include "checkpoint/folders.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string_view>
#include <system_error>

#include "checkpoint/failure.hpp"
#include "checkpoint/output_file.hpp"
#include "checkpoint/record.hpp"
#include "checkpoint/working_names.hpp"

namespace rowscale::checkpoint {
namespace {

namespace fs = std::filesystem;

// The order in which they are removed: the journal tells the most.
constexpr std::string_view kMarks[] = {kLockName, kRecordName, kJournalName};

bool is_mark(std::string_view name) {
  return std::find(std::begin(kMarks), std::end(kMarks), name) != std::end(kMarks);
}

void require(const std::error_code& error, const fs::path& path, const char* what) {
  if (!error) return;
  throw Failure(FailureKind::output,
                fmt::format("{}: {}: {}", path.string(), what, error.message()));
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    out.push_back(it->path());
  }
  require(error, folder, "cannot be listed");
  return out;
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  require(error, path, "cannot be removed");
}

}  // namespace

bool lies_in(fs::path inner, const fs::path& outer) {
  std::error_code error;
  for (;;) {
    if (fs::exists(inner, error) && fs::equivalent(inner, outer, error)) return true;
    const fs::path up = inner.parent_path();
    if (up == inner || up.empty()) return false;
    inner = up;
  }
}

fs::path resolved(const std::string& path, const char* parameter) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) {
    refuse_usage("{}: expected an absolute path, got {}: the working directory is gone ({})",
                 parameter, path, error.message());
  }
  fs::path out = fs::weakly_canonical(whole, error);
  return error ? whole : out;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  if (!fs::exists(folder, error)) return out;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored) || it->is_symlink(ignored)) {
      out.push_back(it->path().lexically_relative(folder).string());
    }
  }
  require(error, folder, "cannot be listed");
  return out;
}

bool is_plain_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(fs::symlink_status(path, ignored));
}

bool is_marked(const fs::path& folder) {
  std::error_code error;
  if (fs::is_empty(folder, error)) return true;
  return std::any_of(std::begin(kMarks), std::end(kMarks),
                     [&](std::string_view mark) { return is_plain_file(folder / mark); });
}

void remove_marked(const fs::path& folder) {
  for (const fs::path& path : entries_of(folder)) {
    if (!is_mark(path.filename().native())) remove_tree(path);
  }
  for (const std::string_view mark : kMarks) remove_file(folder / mark);
  remove_file(folder);
}

void clear_marked(const fs::path& folder) {
  remove_file(folder / kJournalName);
  for (const fs::path& path : entries_of(folder)) {
    if (path.filename() != kLockName) remove_tree(path);
  }
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  require(error, path, "cannot be removed");
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    fail_output(to.string(), "cannot be put in its place");
}

}  // namespace rowscale::checkpoint
