// SIGINT, SIGTERM and SIGHUP ask a command to stop; a second one of them ends it at once.
#pragma once

namespace rowscale::cli {

class StopSignal {
 public:
  StopSignal();   // one at a time
  ~StopSignal();  // what was in force before comes back
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  [[nodiscard]] int number() const;  // 0: none came
};

}  // namespace rowscale::cli
