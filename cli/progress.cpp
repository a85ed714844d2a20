#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "failure.hpp"
#include "json_lines.hpp"
#include "output.hpp"
#include "plan_report.hpp"

namespace rowscale::cli {
namespace {

constexpr auto kMovingStep = std::chrono::milliseconds(200);
constexpr auto kLineStep = std::chrono::seconds(10);

std::string time_text(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

}  // namespace

Progress::Progress(ProgressForm form, const StopSignal* stop)
    : form_(form),
      stop_(stop),
      moves_(form == ProgressForm::text && isatty(STDERR_FILENO) == 1),
      begin_(Clock::now()),
      last_(begin_) {}

void Progress::found_nothing_to_resume() {
  const std::string message = "--resume: nothing unfinished is there: it begins at the start";
  if (form_ == ProgressForm::json) {
    nlohmann::ordered_json line = json_line("warning");
    line["message"] = message;
    print(dump(line) + "\n");
  }
  std::fprintf(stderr, "rowscale: warning: %s\n", message.c_str());
}

void Progress::progress(int64_t done_bytes, int64_t total_bytes) {
  if (first_bytes_ < 0) first_bytes_ = done_bytes;
  const auto now = Clock::now();
  if (form_ == ProgressForm::none ||
      now - last_ < (moves_ ? Clock::duration(kMovingStep) : Clock::duration(kLineStep))) {
    return;
  }
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double rate = static_cast<double>(done_bytes - first_bytes_) / seconds;
  const double left = rate > 0.0 ? static_cast<double>(total_bytes - done_bytes) / rate : 0.0;
  if (form_ == ProgressForm::json) {
    nlohmann::ordered_json line = json_line("progress");
    line["done_bytes"] = done_bytes;
    line["total_bytes"] = total_bytes;
    line["seconds_left"] = left;
    std::puts(dump(line).c_str());
    std::fflush(stdout);
    return;
  }
  const std::string text = fmt::format("{:5.1f} %  {} of {}  {}/s  {} left",
                                       100.0 * static_cast<double>(done_bytes) /
                                           static_cast<double>(std::max<int64_t>(total_bytes, 1)),
                                       size_text(done_bytes), size_text(total_bytes),
                                       size_text(static_cast<int64_t>(rate)), time_text(left));
  std::fprintf(stderr, moves_ ? "\r%s\033[K" : "%s\n", text.c_str());
  shown_ = moves_;
}

void Progress::finished(const std::string& name, int64_t bytes, const std::string& sha256) {
  if (form_ == ProgressForm::json) {
    nlohmann::ordered_json line = json_line("file");
    line["name"] = name;
    line["bytes"] = bytes;
    line["sha256"] = sha256;
    std::puts(dump(line).c_str());
    std::fflush(stdout);
  } else if (form_ == ProgressForm::text) {
    clear_line();
    std::fprintf(stderr, "wrote %s, %s\n", name.c_str(), size_text(bytes).c_str());
  }
}

void Progress::clear_line() const {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::end() {
  clear_line();
  shown_ = false;
}

int64_t parse_size(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  const std::string unit(at, end);
  int shift = -1;
  if (unit.empty()) shift = 0;
  if (unit == "K" || unit == "KiB") shift = 10;
  if (unit == "M" || unit == "MiB") shift = 20;
  if (unit == "G" || unit == "GiB") shift = 30;
  if (error != std::errc() || shift < 0 || value <= 0 || value > (int64_t{1} << 50 >> shift)) {
    throw Failure(
        ExitCode::usage,
        fmt::format("--max-memory: expected bytes, or a number with K, M or G, got {}", text));
  }
  return value << shift;
}

}  // namespace rowscale::cli
