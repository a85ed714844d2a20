// What lies beside the shards of a model folder, and what becomes of it.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model.hpp"

namespace rowscale::checkpoint {

// A name that a JSON text cannot hold, or that a terminal would obey, is refused. Throws
// Failure(input).
void require_printable(const std::string& folder, const std::string& name);

// Every file of `folder` and its sub-folders that is not one of `shards`, by name. Symbolic links
// to files are followed, those to folders left out. Throws Failure(input).
std::vector<SideFile> list_side_files(const std::string& folder,
                                      const std::vector<std::string>& shards,
                                      const std::string& index_name);

}  // namespace rowscale::checkpoint
