// The conversion itself: from a plan to a folder that is complete or not there.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/output_names.hpp"
#include "checkpoint/plan.hpp"
#include "rowscale/types.hpp"

namespace rowscale::checkpoint {

enum class Unfinished { refuse, resume };  // what an interrupted run left
enum class Existing { refuse, replace };   // an output that rowscale wrote before

struct ConvertRequest {
  std::string out;
  Unfinished unfinished = Unfinished::refuse;
  Existing existing = Existing::refuse;
  Card card = Card::copy;
  DeviceType device = DeviceType::cpu;      // that casts; the bytes are the same
  int threads = 0;                          // 0: as many as the process may use
  int64_t max_memory = int64_t{512} << 20;  // bytes, of the resident set
};

// Told of what happens, from one thread at a time.
class Listener {
 public:
  Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  virtual ~Listener() = default;
  // Before any progress, where the request is to resume and the conversion begins at its start.
  virtual void found_nothing_to_resume() = 0;
  virtual void progress(int64_t done_bytes, int64_t total_bytes) = 0;  // of the source
  virtual void finished(const std::string& name, int64_t bytes, const std::string& sha256) = 0;
  virtual bool should_stop() = 0;  // asked between strips
};

enum class Outcome { done, stopped };  // stopped: as should_stop() asked; can be resumed

// Throws Failure: usage (the target is in the way), unreadable (or the source changed), data (it
// holds a number that is none), output (no room, quota, I/O error, an error of the device; what is
// there can be resumed), unsupported (no such device).
Outcome convert(Model* model, const Plan& plan, const ConvertRequest& request, Listener* listener);

// Refuses what would be refused anyway, before any work: a target in the way, names that its file
// system does not allow, too little room.
void check_target(const Model& model, const Plan& plan, const ConvertRequest& request);

}  // namespace rowscale::checkpoint
