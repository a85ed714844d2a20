// Names that a conversion works with. A model's own files of these names are left out of an output.
#pragma once

#include <string_view>

namespace rowscale::checkpoint {

// In the working folder. The journal is written first and removed last: see target_folder.hpp.
inline constexpr const char* kJournalName = ".rowscale-journal";
inline constexpr const char* kLockName = ".rowscale-lock";
// The file that is being written: one at a time, whatever the name that it gets when it is whole.
// So a name as long as the file system allows is no matter.
inline constexpr const char* kPartName = ".rowscale-part";

// The working folder itself, where OUT is an empty folder.
inline constexpr const char* kWorkInsideName = ".rowscale-work";

inline bool is_working_name(std::string_view name) {
  return name == kJournalName || name == kLockName || name == kPartName || name == kWorkInsideName;
}

}  // namespace rowscale::checkpoint
