#include "gpu/host_calls.hpp"

#include <fmt/format.h>

#include <chrono>
#include <functional>

#include "bench_timing.hpp"
#include "failure.hpp"
#include "gpu/ceiling_kernels.hpp"
#include "gpu/quantizers.hpp"
#include "output.hpp"
#include "rowscale/version.hpp"

namespace rowscale::cli::gpu {
namespace {

constexpr int kBatch = 200;  // fewer than a stream queues before a launch waits for the device
}  // namespace

double time_calls(const std::function<void(cudaStream_t)>& call, const Stream& stream, int rounds) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int round = -1; round < rounds; ++round) {  // the first loads the kernel
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kBatch; ++i) call(stream.get());
    const std::chrono::duration<double> seconds = Clock::now() - start;
    stream.synchronize();
    if (round >= 0) times.push_back(seconds.count() / kBatch);
  }
  return median(times);
}

void time_host_calls(const Options& options) {
  const std::vector<NamedRecipe> recipes = chosen_recipes(options);
  const Gpu gpu = open_gpu();
  const DType dtype = options.dtypes.front();
  const Shape shape{1, options.hidden.empty() ? 4096 : options.hidden.front(), ""};
  const int64_t padded = shape.hidden + 256;  // the copy kernel works on whole units
  const DeviceBuffer x(padded * element_size(dtype));
  const DeviceBuffer codes(padded);
  const Buffer host(x.bytes());
  fill(host, dtype, Pattern::normal);
  x.tile(host);
  const Stream stream;
  fmt::print(
      "{}\n{}\nmicroseconds of the calling thread for a call, medians of {} batches of {}; {} [1, "
      "{}]\n\n",
      version(), to_string(gpu), options.rounds, kBatch, rowscale::to_string(dtype), shape.hidden);
  Table table({{"call", false}, {"us"}});
  const Traffic traffic{static_cast<int>(element_size(dtype)), 1};
  const auto launch = [&](cudaStream_t s) {
    check(launch_copy(traffic, kCopyVariants[0], x.data(), codes.data(), shape.hidden, s),
          "launch_copy");
  };
  table.add(
      {"a bare launch", fmt::format("{:.2f}", time_calls(launch, stream, options.rounds) * 1e6)});
  for (const NamedRecipe& named : recipes) {
    const ScaledRecipe recipe(named, gpu, dtype, shape, 1);
    const Status first = recipe.quantize(x.data(), codes.data(), 0, stream.get());
    if (first.code() == StatusCode::unsupported) {
      fmt::print(stderr, "left out: {}: {}\n", named.name, first.message());
      continue;
    }
    const auto call = [&](cudaStream_t s) {
      require(recipe.quantize(x.data(), codes.data(), 0, s));
    };
    table.add({named.name, fmt::format("{:.2f}", time_calls(call, stream, options.rounds) * 1e6)});
  }
  fmt::print("{}", table.text());
}

}  // namespace rowscale::cli::gpu
