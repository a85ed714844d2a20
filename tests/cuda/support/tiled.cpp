#include "tests/cuda/support/tiled.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace rowscale::test {

Tiled::Tiled(PoolKind kind, DType dtype, int64_t bytes) : device_(bytes) {
  const Shared& pool = data_pool(kind, dtype);
  const int64_t period = (kPoolElements - 1) * element_size(dtype);
  host_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  const int64_t pieces = (bytes + period - 1) / period;
  const auto count = [&](int64_t piece) {
    return static_cast<size_t>(std::min(period, bytes - piece * period));
  };
  const int64_t workers = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, pieces);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(workers));
  for (int64_t t = 0; t < workers; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t piece = t; piece < pieces; piece += workers) {
        std::memcpy(host_.get() + piece * period, pool.host, count(piece));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int64_t piece = 0; piece < pieces; ++piece) {
    check_cuda(cudaMemcpy(device_.data() + piece * period, pool.device, count(piece),
                          cudaMemcpyDeviceToDevice),
               "copy of a pool");
  }
  check_cuda(cudaDeviceSynchronize(), "copy of a pool");
  shared_ = {host_.get(), device_.data(), bytes};
}

std::string too_large(int64_t host_bytes, int64_t device_bytes) {
  size_t free = 0;
  size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (static_cast<int64_t>(free) < device_bytes) {
    return fmt::format("{} MB of device memory are needed, {} are free", device_bytes >> 20,
                       free >> 20);
  }
  // All of the machine's memory: what is free may grow on a virtual one.
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t host = pages * sysconf(_SC_PAGESIZE);
  if (host < 2 * host_bytes) {
    return fmt::format("{} MB of host memory are needed, half of {} may be used", host_bytes >> 20,
                       host >> 20);
  }
  return {};
}

}  // namespace rowscale::test
