// Whether the files of a folder are those that its record names.
#pragma once

#include <functional>
#include <string>

#include "checkpoint/check.hpp"
#include "checkpoint/record.hpp"

namespace rowscale::checkpoint {

// Each recorded file is there, of the recorded size and hash, inside the folder; no safetensors
// file is there beside them. Reads every byte, a few MB in memory.
Check verify_files(const std::string& folder, const Record& record);

}  // namespace rowscale::checkpoint
