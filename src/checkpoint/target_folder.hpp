// The folder that a conversion writes: made beside its place, or inside an empty one, and put there
// when it is complete. One run at a time.
//
// What lies on the disk tells how far a run came, so that one that is killed at any moment can be
// continued. The journal is what counts, and the last thing that is removed:
//   a working folder without a journal   nothing of worth: a new run takes it over
//   a working folder with a journal      unfinished: --resume continues, from the files that are
//   there OUT with a journal                   complete; --resume removes what is left beside it,
//   and the journal OUT without one                      done
#pragma once

#include <cstdint>
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

  // Refuses names, of files in the output, that the target's file system does not allow. Throws
  // Failure(usage).
  void require_names(const std::vector<std::string>& names) const;

  // Makes the working folder, or takes over an unfinished one, and locks it. Throws Failure: usage
  // (another run has it, or an unfinished conversion is in the way), output.
  void begin();

  bool is_resumed() const { return is_resumed_; }
  // Whether the output is in its place already: what is left to do is tidy().
  bool is_published() const { return place_ == Place::published; }

  std::string in_work(const std::string& name) const;        // makes the sub-folders that it needs
  std::string finished_path(const std::string& name) const;  // where a finished file lies
  std::string part_path() const;
  std::string journal_path() const;

  // Puts the complete folder in its place. `last`: the files to be moved last, in this order, where
  // they are moved one by one; empty names are passed over. Throws Failure(output); what is there
  // can be resumed.
  void publish(const std::vector<std::string>& last);
  // Removes what a published conversion leaves: an output that it replaced, working folders, the
  // lock, the journal. Throws Failure(output); again, --resume does the rest.
  void tidy() const;

  // Removes the working folder and all in it.
  void discard() const;

  // Of the file system of the target: bytes that may be written, and those that an unfinished
  // conversion takes up already.
  int64_t free_bytes() const;
  int64_t used_bytes() const;

 private:
  enum class Place {
    free,      // nothing or an empty folder is there: one rename
    empty,     // an empty folder, the work is done inside: files are moved up, config.json last
    replaced,  // an output of ours: exchanged, then removed
    published  // the output, complete
  };

  void choose_place(const std::string& out);
  void refuse_overlap(const Model& model) const;
  void refuse_foreign() const;
  void refuse_foreign_work() const;
  void lock();
  void settle_replaced() const;
  void move_up(const std::vector<std::string>& last) const;
  void exchange() const;

  std::string out_;
  std::string parent_;
  std::string beside_;  // the working folder, where the work is not done inside OUT
  std::string inside_;  // and where it is
  std::string old_;     // what is replaced, for a moment, where folders cannot be exchanged
  std::string work_;    // where files of this run are
  Place place_ = Place::free;
  Unfinished unfinished_;
  Existing existing_;
  bool is_resumed_ = false;
  int lock_ = -1;
};

}  // namespace rowscale::checkpoint
