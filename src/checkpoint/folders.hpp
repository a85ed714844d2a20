// What a conversion does with folders as a whole. Throws Failure(output) unless said otherwise.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rowscale::checkpoint {

// Whether `inner` is `outer` or lies in it, by what the file system says, not by names.
bool lies_in(std::filesystem::path inner, const std::filesystem::path& outer);

// Absolute and, as far as it exists, without symbolic links. Throws Failure(usage), which names
// `parameter`: the path is relative and the working directory is gone.
std::filesystem::path resolved(const std::string& path, const char* parameter);

// Paths below `folder` of all that is no folder, sub-folders included; none where it is not there.
std::vector<std::string> files_in(const std::filesystem::path& folder);

// A regular file, no link to one.
bool is_plain_file(const std::filesystem::path& path);

// Whether rowscale wrote what is in the folder, as a journal, a lock or a record tells; an empty
// folder is everybody's.
bool is_marked(const std::filesystem::path& folder);

// Removes the folder, what marks it last: one that is half removed is still known as rowscale's.
void remove_marked(const std::filesystem::path& folder);

// Removes all in the folder but its lock, the journal first: nothing can be resumed any more.
void clear_marked(const std::filesystem::path& folder);

// Removes a file; that it is not there is no failure.
void remove_file(const std::filesystem::path& path);

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace rowscale::checkpoint
