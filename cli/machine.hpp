// Where and when something was measured.
#pragma once

#include <cstdint>
#include <string>

namespace rowscale::cli {

struct Machine {
  std::string cpu;     // model name, "unknown" where the kernel does not tell
  int processors = 1;  // that this process may run on
  double l3_mib = 0;   // 0: unknown
};

Machine this_machine();
std::string to_string(const Machine& machine);
// Bytes that can be taken without swapping, in this process's control group too; the largest number
// where the kernel does not tell.
int64_t available_memory();
std::string utc_now();  // ISO 8601: 2026-01-31T12:00:00Z

}  // namespace rowscale::cli
