#include "checkpoint/memory_budget.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

namespace rowscale::checkpoint {
namespace {

// Program, libraries, stacks, and what the allocator keeps.
constexpr int64_t kFixed = int64_t{40} << 20;
// Upper bounds of what a tensor costs in headers, indexes and plan beside its name.
constexpr int64_t kTensorBytes = 200;
constexpr int64_t kNames = 3;  // in the header; once more in the index; once among the outputs
// Buffers of a strip, bytes an element: read (4), worked on (4), codes (1), scales (1/2).
constexpr int64_t kStripBytes = 10;
constexpr int64_t kMostElements = int64_t{2} << 20;
constexpr int64_t kFewestElements = int64_t{64} << 10;

int64_t plan_bytes(const Model& model, const Plan& plan) {
  int64_t names = 0;
  for (const TensorPlan& tensor : plan.tensors) {
    names += static_cast<int64_t>(model.entry(tensor.source).name.size());
  }
  return static_cast<int64_t>(plan.tensors.size()) * kTensorBytes + names * kNames;
}

int strips_of(int workers) {
  return workers + 4;  // being read, waiting, being written
}

// "max 100000" or "200000 100000": the quota and its period in microseconds.
double quota_in(const std::string& path) {
  std::ifstream in(path);
  double quota = 0.0;
  double period = 0.0;
  if (!(in >> quota >> period) || period <= 0.0) return 0.0;  // "max" is no number
  return quota / period;
}

// Of control groups version 2: the least of this group's and its parents' quotas; 0: none.
double quota() {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("0::", 0) != 0) continue;
    double least = 0.0;
    for (std::string group = line.substr(3);;) {
      const double cpus = quota_in("/sys/fs/cgroup" + group + "/cpu.max");
      if (cpus > 0.0 && (least == 0.0 || cpus < least)) least = cpus;
      const size_t slash = group.rfind('/');
      if (slash == std::string::npos || group.size() <= 1) return least;
      group.resize(slash);
    }
  }
  return 0.0;
}

}  // namespace

int usable_threads() {
  cpu_set_t set;
  int threads = sched_getaffinity(0, sizeof set, &set) == 0
                    ? CPU_COUNT(&set)
                    : static_cast<int>(std::thread::hardware_concurrency());
  const double limit = quota();
  if (limit > 0.0) threads = std::min(threads, static_cast<int>(std::ceil(limit)));
  return std::max(threads, 1);
}

MemoryBudget make_budget(const Model& model, const Plan& plan, int threads, int64_t max_memory) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  MemoryBudget out;
  const int64_t needed = kFixed + plan_bytes(model, plan);
  const int64_t one_worker = needed + strips_of(1) * kFewestElements * kStripBytes;
  out.least_bytes = (one_worker + kMiB - 1) / kMiB * kMiB;
  const int64_t elements = (max_memory - needed) / kStripBytes;
  out.workers = threads > 0 ? threads : usable_threads();
  // Fewer workers before strips that are too small to be read well.
  while (out.workers > 1 && elements / strips_of(out.workers) < kFewestElements) --out.workers;
  out.strips = strips_of(out.workers);
  out.strip_elements = std::min(elements / out.strips, kMostElements);
  return out;
}

}  // namespace rowscale::checkpoint
