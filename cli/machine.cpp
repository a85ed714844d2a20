#include "machine.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>

namespace rowscale::cli {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    if (value != std::string::npos) return line.substr(value);
  }
  return "unknown";
}

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

// The number behind the word `key` in a file of lines "key number"; -1 where there is none.
int64_t number_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t number = 0;
    if (word == key && file >> number) return number;
  }
  return -1;
}

// Of a file with one number; -1 where there is none, as in "max".
int64_t number_in(const char* path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : -1;
}

}  // namespace

Machine this_machine() {
  const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return {cpu_model(), usable_processors(), l3 > 0 ? static_cast<double>(l3) / (1 << 20) : 0};
}

std::string to_string(const Machine& machine) {
  std::string out = fmt::format("{}, {} processor{}", machine.cpu, machine.processors,
                                machine.processors == 1 ? "" : "s");
  if (machine.l3_mib > 0) out += fmt::format(", L3 {:.0f} MiB", machine.l3_mib);
  return out;
}

int64_t available_memory() {
  int64_t available = std::numeric_limits<int64_t>::max();
  const int64_t of_machine = number_in("/proc/meminfo", "MemAvailable:");
  if (of_machine >= 0) available = of_machine << 10;
  const int64_t most = number_in("/sys/fs/cgroup/memory.max");
  const int64_t taken = number_in("/sys/fs/cgroup/memory.current");
  // Pages of files are given back first.
  const int64_t of_files = std::max<int64_t>(number_in("/sys/fs/cgroup/memory.stat", "file"), 0);
  if (most >= 0 && taken >= 0) available = std::min(available, most - taken + of_files);
  return std::max<int64_t>(available, 0);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace rowscale::cli
