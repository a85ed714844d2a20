// rowscale list-kernels, and that there are kernels
#include <fmt/format.h>

#include "cuda/registry.hpp"
#include "gpu/commands.hpp"
#include "output.hpp"

namespace rowscale::cli::gpu {

void require_kernels(const std::string& /*what*/) {}

void list_kernels() {
  const std::vector<cuda::KernelInfo> kernels = cuda::list_kernels();
  Table table({{"kernel", false}, {"plan", false}, {"architectures", false}});
  for (const cuda::KernelInfo& kernel : kernels) {
    table.add({kernel.name, kernel.plan, kernel.architectures});
  }
  fmt::print("{}{} kernels\n", table.text(), kernels.size());
}

}  // namespace rowscale::cli::gpu
