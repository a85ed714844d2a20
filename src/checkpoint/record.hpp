// rowscale.json: what a folder was made from and how, and the size and hash of each of its files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/plan.hpp"

namespace rowscale::checkpoint {

inline constexpr const char* kRecordName = "rowscale.json";

struct RecordedFile {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;
};

struct Record {
  std::string version;  // of the rowscale that wrote it
  std::string source;
  PlanRequest request;
  std::vector<RecordedFile> files;
};

// Empty: the folder has none. Throws Failure(input) where it is one that this version cannot read.
std::optional<Record> read_record(const std::string& folder);

}  // namespace rowscale::checkpoint
