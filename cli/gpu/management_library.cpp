#include "gpu/management_library.hpp"

#include <dlfcn.h>

#include <memory>

namespace rowscale::cli::gpu {
namespace {

// Functions of NVML that we call, declared as its reference manual has them; every one returns 0
// where it succeeded.
using Init = int (*)();
using Shutdown = int (*)();
using DriverVersion = int (*)(char* version, unsigned length);
using HandleByBusId = int (*)(const char* bus_id, void** device);
using ClockInfo = int (*)(void* device, int clock, unsigned* mhz);
constexpr int kSmClock = 1;

struct Close {
  void operator()(void* library) const { dlclose(library); }
};

template <class Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

Management read_management(const std::string& bus_id) {
  Management out;
  const std::unique_ptr<void, Close> library(dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL));
  if (library == nullptr) return out;
  const auto init = find<Init>(library.get(), "nvmlInit_v2");
  const auto shutdown = find<Shutdown>(library.get(), "nvmlShutdown");
  if (init == nullptr || shutdown == nullptr || init() != 0) return out;
  char version[96] = {};
  const auto driver = find<DriverVersion>(library.get(), "nvmlSystemGetDriverVersion");
  if (driver != nullptr && driver(version, sizeof version) == 0) out.driver = version;
  const auto handle = find<HandleByBusId>(library.get(), "nvmlDeviceGetHandleByPciBusId_v2");
  const auto clock = find<ClockInfo>(library.get(), "nvmlDeviceGetClockInfo");
  void* device = nullptr;
  unsigned mhz = 0;
  if (handle != nullptr && clock != nullptr && handle(bus_id.c_str(), &device) == 0 &&
      clock(device, kSmClock, &mhz) == 0) {
    out.sm_clock_mhz = static_cast<int>(mhz);
  }
  shutdown();
  return out;
}

}  // namespace rowscale::cli::gpu
