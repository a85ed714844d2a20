// What only the driver's management library knows of a GPU. It is opened at run time: it comes with
// the driver, not with the toolkit, and a machine without it still measures.
#pragma once

#include <string>

namespace rowscale::cli::gpu {

struct Management {
  std::string driver;    // "": unknown
  int sm_clock_mhz = 0;  // at this moment; 0: unknown
};

// `bus_id`: as the CUDA runtime writes it, "0000:3B:00.0".
Management read_management(const std::string& bus_id);

}  // namespace rowscale::cli::gpu
