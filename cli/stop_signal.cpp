#include "stop_signal.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

namespace rowscale::cli {
namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
std::atomic<int> g_number{0};
static_assert(std::atomic<int>::is_always_lock_free);
std::array<struct sigaction, kSignals.size() + 1> g_before;

void note(int number) {
  g_number.store(number);
}

}  // namespace

StopSignal::StopSignal() {
  g_number.store(0);
  struct sigaction action = {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &g_before[i]);
    // nohup's wish is the user's.
    if (g_before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
  // A file beyond RLIMIT_FSIZE shall be a message (EFBIG), not a death.
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, &g_before.back());
}

StopSignal::~StopSignal() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &g_before[i], nullptr);
  sigaction(SIGXFSZ, &g_before.back(), nullptr);
}

int StopSignal::number() const {
  return g_number.load();
}

}  // namespace rowscale::cli
