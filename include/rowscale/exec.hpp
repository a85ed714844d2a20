// How a call runs; never what it computes: no field changes a bit of the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rowscale/export.hpp"

namespace rowscale {

// CPU instruction sets. best: the fastest that this machine has and rowscale knows. unsupported
// where the CPU runs a call by one that is not there; CUDA tensors need none.
enum class Target : int32_t { best = 0, scalar = 1, avx2 = 2, avx512 = 3 };

// CUDA programmatic dependent launch.
enum class DependentLaunch : int32_t { off = 0, on = 1 };

struct Workspace {
  void* data = nullptr;  // borrowed; any content; one per concurrent call
  size_t bytes = 0;
};

struct Exec {
  void* stream = nullptr;  // CUDA tensors: a cudaStream_t; ignored on the CPU
  Workspace workspace;     // what the operator's workspace_bytes asks for; nothing on the CPU
  // CPU threads, the caller's included; 0: as many as the process may run on. Workers are started
  // when a call first wants them, and kept; while one call uses them, others run on their own
  // thread alone. A call needs up to 160 KiB of its thread's stack.
  int threads = 1;
  Target target = Target::best;
  DependentLaunch dependent_launch = DependentLaunch::off;
};

ROWSCALE_API const char* to_string(Target target);

// The targets that this build has and this machine can run, fastest first; `best` is the first.
ROWSCALE_API std::vector<Target> supported_targets();

}  // namespace rowscale
