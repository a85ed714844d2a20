// The folder that a conversion writes: made beside its place, or inside an empty one, and put there
// when it is complete. One run at a time.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/convert.hpp"
#include "checkpoint/model.hpp"

namespace rowscale::checkpoint {

class TargetFolder {
 public:
  // Refuses a target in the way; touches nothing. Throws Failure(usage).
  TargetFolder(const Model& model, const ConvertRequest& request);
  TargetFolder(const TargetFolder&) = delete;
  TargetFolder& operator=(const TargetFolder&) = delete;
  ~TargetFolder();

  // Makes the working folder, or takes over an unfinished one, and locks it. Throws Failure: usage
  // (another run has it, or an unfinished conversion is in the way), output.
  void begin();

  bool is_resumed() const { return is_resumed_; }
  const std::string& work() const { return work_; }
  std::string in_work(const std::string& name) const;        // makes the sub-folders that it needs
  std::string finished_path(const std::string& name) const;  // where a finished file lies
  std::string journal_path() const;
  static bool is_ours(const std::string& name);  // of the working folder's own files

  // Puts the complete folder in its place. `last`: the files to be moved last, in this order, where
  // they are moved one by one; empty names are passed over.
  void finish(const std::vector<std::string>& last);

  // Removes the working folder and all in it.
  void discard() const;

  // Of the file system of the target: bytes that may be written, and those of `work` that an
  // unfinished conversion takes up already.
  int64_t free_bytes() const;
  int64_t used_bytes() const;

 private:
  enum class Place {
    absent,   // nothing is there: one rename
    empty,    // an empty folder: files are moved up, the index and config.json last
    replaced  // an output of ours: exchanged, then removed
  };

  void refuse_overlap(const Model& model) const;
  void refuse_long_name() const;
  void refuse_foreign() const;
  void refuse_foreign_work() const;
  void lock();
  void clear_work() const;
  void move_up(const std::vector<std::string>& last) const;

  std::string out_;
  std::string work_;
  std::string parent_;
  Place place_ = Place::absent;
  Unfinished unfinished_;
  Existing existing_;
  bool is_resumed_ = false;
  int lock_ = -1;
};

}  // namespace rowscale::checkpoint
