// What an unfinished conversion has done, so that another run can continue it. Lines of JSON: what
// is being made of what, then every finished file and every finished tensor of an unfinished one.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rowscale::checkpoint {

struct FinishedFile {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;
};

// A shard of which the first `tensors` are written.
struct UnfinishedFile {
  std::string name;
  uint32_t tensors = 0;
  int64_t cursor = 0;       // bytes from the start that are whole
  std::string prefix_hash;  // of them
  std::string tail_hash;    // of what these tensors have behind the tail's begin
};

class Journal {
 public:
  // Begins a new one. `header` says what is made of what. Throws Failure(output).
  static Journal create(const std::string& path, const nlohmann::ordered_json& header);
  // Reads what an earlier run wrote; a last line that a crash cut short is dropped. Throws
  // Failure(usage): naming the first difference, where `header` is another; or that it is damaged.
  static Journal resume(const std::string& path, const nlohmann::ordered_json& header);

  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&&) = delete;
  ~Journal();

  const FinishedFile* find(const std::string& name) const;
  const std::optional<UnfinishedFile>& unfinished() const { return unfinished_; }

  void add(const FinishedFile& file);  // and to the disk
  void add(const UnfinishedFile& file);
  void flush();  // to the disk

 private:
  Journal(std::string path, int flags);
  void take(const nlohmann::ordered_json& line);  // any but the first
  void append(const nlohmann::ordered_json& line);

  std::string path_;
  int fd_ = -1;
  std::vector<FinishedFile> finished_;
  std::optional<UnfinishedFile> unfinished_;
};

}  // namespace rowscale::checkpoint
