#include "checkpoint/side_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "checkpoint/failure.hpp"
#include "checkpoint/file_time.hpp"
#include "checkpoint/header_handler.hpp"
#include "checkpoint/json_text.hpp"
#include "checkpoint/record.hpp"
#include "checkpoint/working_names.hpp"

namespace rowscale::checkpoint {

void require_printable(const std::string& folder, const std::string& name) {
  if (has_control_character(name)) {
    refuse_input("{}: the name of {} holds a control character: rename it", folder, shown(name));
  }
  if (!is_utf8(name)) {
    refuse_input("{}: the name of {} is no UTF-8: rename it", folder, json_string(name));
  }
}

namespace {

namespace fs = std::filesystem;

struct Left {
  std::string_view pattern;
  const char* reason;
};

constexpr Left kLeftFolders[] = {
    {".git", "version control"},
    {".cache", "a download cache"},
    {"original", "the weights in their publisher's format"},
};

constexpr Left kLeftSuffixes[] = {
    {".bin", "weights in another format"},        {".pt", "weights in another format"},
    {".pth", "weights in another format"},        {".gguf", "weights in another format"},
    {".onnx", "weights in another format"},       {".safetensors", "not in the index"},
    {".safetensors.index.json", "another index"},
};

const char* reason_for_folder(std::string_view name) {
  for (const Left& left : kLeftFolders) {
    if (name == left.pattern) return left.reason;
  }
  return nullptr;
}

const char* reason_for_file(std::string_view name, bool at_top) {
  // An earlier conversion's record says nothing about the new files.
  if (at_top && name == kRecordName) return "written anew";
  for (const Left& left : kLeftSuffixes) {
    if (name.ends_with(left.pattern)) return left.reason;
  }
  return nullptr;
}

void list(const fs::path& folder, const std::string& prefix, const std::vector<std::string>& shards,
          const std::string& index_name, std::vector<SideFile>* out) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string base = it->path().filename().string();
    SideFile file;
    file.name = prefix + base;
    const bool at_top = prefix.empty();
    if (at_top && std::binary_search(shards.begin(), shards.end(), base)) continue;
    std::error_code ignored;
    const fs::file_status status = it->status(ignored);  // of what a link leads to
    const auto leave_out = [&](const char* reason) {
      file.fate = Fate::left_out;
      file.reason = reason;
      out->push_back(file);
    };
    if (at_top && is_working_name(base)) {
      if (fs::is_directory(status)) file.name += '/';
      leave_out("of an interrupted conversion");
      continue;
    }
    if (fs::is_directory(status)) {
      const char* reason = reason_for_folder(base);
      if (at_top && base == kRecordName) reason = "the name of a file of the output";
      if (reason != nullptr) {
        file.name += '/';
        leave_out(reason);
      } else if (it->is_symlink(ignored)) {
        file.name += '/';
        leave_out("a symbolic link to a folder");
      } else {
        list(it->path(), file.name + "/", shards, index_name, out);
      }
      continue;
    }
    if (fs::is_regular_file(status)) {
      struct stat info = {};
      if (stat(it->path().c_str(), &info) == 0) {  // else copying it fails
        file.bytes = info.st_size;
        file.modified_ns = modification_ns(info);
      }
    }
    if (at_top && (base == index_name || base == "config.json")) {
      file.fate = Fate::rewritten;
      out->push_back(file);
    } else if (base == ".git") {  // of a worktree or submodule: a file
      leave_out("version control");
    } else if (const char* reason = reason_for_file(base, at_top)) {
      leave_out(reason);
    } else if (!fs::exists(status)) {
      refuse_input("{}: a symbolic link to nothing: download the model again", it->path().string());
    } else if (!fs::is_regular_file(status)) {
      leave_out("no regular file");
    } else {
      require_printable(folder.string(), base);
      out->push_back(file);
    }
  }
  if (error) refuse_input("{}: cannot be listed: {}", folder.string(), error.message());
}

}  // namespace

std::vector<SideFile> list_side_files(const std::string& folder,
                                      const std::vector<std::string>& shards,
                                      const std::string& index_name) {
  std::vector<SideFile> out;
  list(folder, "", shards, index_name, &out);
  std::sort(out.begin(), out.end(),
            [](const SideFile& a, const SideFile& b) { return a.name < b.name; });
  return out;
}

}  // namespace rowscale::checkpoint
