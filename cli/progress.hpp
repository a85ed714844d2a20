// How far a conversion is: one line that moves on a terminal, plain lines elsewhere, or JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "checkpoint/convert.hpp"
#include "stop_signal.hpp"

namespace rowscale::cli {

enum class ProgressForm { text, json, none };

class Progress : public checkpoint::Listener {
 public:
  Progress(ProgressForm form, const StopSignal* stop);

  void found_nothing_to_resume() override;
  void progress(int64_t done_bytes, int64_t total_bytes) override;
  void finished(const std::string& name, int64_t bytes, const std::string& sha256) override;
  bool should_stop() override { return stop_->number() != 0; }

  void end();  // of the moving line

 private:
  using Clock = std::chrono::steady_clock;

  void clear_line() const;

  ProgressForm form_;
  const StopSignal* stop_;
  bool moves_;  // on a terminal
  bool shown_ = false;
  Clock::time_point begin_;
  Clock::time_point last_;
  int64_t first_bytes_ = -1;  // done before this run
};

// "512M", "2G", "1500000": bytes; K, M and G are powers of 1024. Throws Failure(usage).
int64_t parse_size(const std::string& text);

}  // namespace rowscale::cli
